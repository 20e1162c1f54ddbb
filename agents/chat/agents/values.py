"""Values of agents: an empty team, an agent serialized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents import models
from agents.core.agent import Emit, Member, RAGAnswer
from agents.core.page_context import PageRead
from agents.core.state import Turn
from rag.core.errors import UnknownNameError

_PLAIN = (
    "name",
    "display_name",
    "description",
    "agent_type",
    "agent_role",
    "max_iterations",
    "temperature",
    "is_enabled",
    "is_builtin",
    "model",
    "prompt",
)


class EmptyTeam:
    """The team of an agent that asks no others."""

    @property
    def members(self) -> Sequence[Member]:
        """Return nobody."""
        return ()

    async def ask(
        self, name: str, question: str, history: Sequence[Turn], page: PageRead, emit: Emit
    ) -> RAGAnswer:
        """Raise UnknownNameError."""
        raise UnknownNameError("agent", name, ())


def serialize_agent(row: models.Agent) -> dict[str, Any]:
    """Return an agent's row as JSON, the config with its defaults."""
    plain = {name: getattr(row, name) for name in _PLAIN}
    return {"id": row.pk, **plain, "config": row.settings.as_dict()}

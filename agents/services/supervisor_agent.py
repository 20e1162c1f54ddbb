"""The agent of type supervisor: it asks other agents. In: a question. Out: events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agents import models
from agents.core.agent import Team
from agents.core.pipeline import Pipeline
from agents.services.apart import in_rows
from agents.services.rag_agent import RAGAgent
from agents.services.supervisor_team import AgentTeam, MakeAgent, team_of
from rag.core.access import Scope


class SupervisorAgent(RAGAgent):
    """``agents.core.agent.Agent``; ``path`` names the agents on whose behalf it is asked."""

    kind = "supervisor"

    def __init__(
        self, agent: models.Agent, scope: Scope, stores: Sequence[Any], *,
        make: MakeAgent, path: Sequence[str] = (), pipeline: Pipeline | None = None,
    ) -> None:  # fmt: skip
        super().__init__(agent, scope, stores, pipeline=pipeline)
        self._make, self._path = make, path
        self._members: AgentTeam | None = None

    @property
    def usage(self) -> Mapping[str, int]:
        """Return its own tokens and those of the agents that it asked."""
        members = self._members.usage if self._members else {}
        own = super().usage
        return {name: own.get(name, 0) + members.get(name, 0) for name in {**own, **members}}

    async def _team(self) -> Team:
        self._members = await in_rows(
            team_of, agent=self._agent, scope=self._scope, stores=self._stores, path=self._path,
            make=self._make,
        )  # fmt: skip
        self._members.person = self.person
        return self._members

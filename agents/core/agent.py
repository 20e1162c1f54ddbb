"""Answer of an agent, and the members of a supervisor's team. Knows no Django."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from agents.core.state import Turn

if TYPE_CHECKING:
    from agents.core.page_context import PageRead

Emit = Callable[[str, Mapping[str, Any]], Awaitable[None]]
History = Sequence[Turn] | Callable[[], tuple[list[Turn], str]]


@dataclass(slots=True)
class RAGAnswer:
    """A whole answer and how it came about; ``outcome`` says what came of it.

    ``grounding`` is what ``Groundedness.as_dict`` tells: the verdict of each statement.
    """

    text: str
    citations: Sequence[Mapping[str, Any]]
    sources: Sequence[Mapping[str, Any]]
    outcome: str = ""
    confidence: float | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    model: str = ""
    grounding: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Member:
    """An agent that others may ask; ``description`` says for what, ``role`` what it is to them."""

    name: str
    description: str
    role: str = "specialist"


class Team(Protocol):
    """The agents that one agent may ask for one person: none that this person may not use."""

    @property
    def members(self) -> Sequence[Member]:
        """Return who can be asked, in the order of the config."""

    async def ask(
        self, name: str, question: str, history: Sequence[Turn], page: PageRead, emit: Emit
    ) -> RAGAnswer:
        """Return a member's whole answer, its events told meanwhile; raise RAGError.

        ``page`` is what the person's page sent along, as it was read.
        """

"""Agent protocol: what every type of agent can do. Knows no Django."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from agents.core.chat_events import ChatEvent
from agents.core.state import Turn

if TYPE_CHECKING:
    from agents.core.page_context import PageRead
    from agents.core.pipeline import PipelineState

Emit = Callable[[str, Mapping[str, Any]], Awaitable[None]]
History = Sequence[Turn] | Callable[[], tuple[list[Turn], str]]


class AgentAnswer(Protocol):
    """A whole answer; ``outcome`` says what came of it."""

    text: str
    citations: Sequence[Mapping[str, Any]]
    sources: Sequence[Mapping[str, Any]]
    outcome: str
    confidence: float | None
    usage: Mapping[str, int]
    model: str


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
        ...

    async def ask(
        self, name: str, question: str, history: Sequence[Turn], page: PageRead, emit: Emit
    ) -> AgentAnswer:
        """Return a member's whole answer, its events told meanwhile; raise RAGError.

        ``page`` is what the person's page sent along, as it was read.
        """
        ...


class Agent(Protocol):
    """A configured assistant, acting for one person; used for one question at a time."""

    @property
    def usage(self) -> Mapping[str, int]:
        """Return the tokens that the last answer has cost so far."""
        ...

    @property
    def model_id(self) -> str:
        """Return the model of the last answer, empty before one is asked."""
        ...

    async def answer(self, query: str, history: History, emit: Emit) -> PipelineState:
        """Answer once, telling the events but the last; return the state at the end."""
        ...

    async def generate(self, query: str, history: Sequence[Turn] = ()) -> AgentAnswer:
        """Return the whole answer; raise RAGError."""
        ...

    def stream(self, query: str, history: Sequence[Turn] = ()) -> AsyncIterator[ChatEvent]:
        """Yield the answer's events; the last one is done or error. Leaving stops the model."""
        ...

    def get_config(self) -> dict[str, Any]:
        """Return the agent's config, JSON-safe."""
        ...

    def export_graph(self, form: str = "mermaid") -> str | dict[str, Any]:
        """Return what happens inside as ``mermaid`` text or as ``json``; UnknownNameError."""
        ...

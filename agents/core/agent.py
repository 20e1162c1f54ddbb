"""What every type of agent can do, whatever happens inside. Knows no Django."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from agents.core.chat import ChatEvent
from agents.core.state import Turn

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


class Agent(Protocol):
    """A configured assistant, acting for one person."""

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

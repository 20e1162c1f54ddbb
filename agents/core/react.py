"""ReAct loop protocol: the tools a loop has, and the result of a call. Knows no Django."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rag.core.deadline import Deadline
from rag.core.errors import RAGError
from rag.core.hits import Hit
from rag.core.tools import ToolSpec

# How a model calls tools: by functions of its own, by JSON in a form that its server enforces, or
# by JSON that it was asked for in words. Each is tried where the one before is refused.
CALLINGS = ("native", "form", "text")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a call: ``hits`` can be cited, ``answer`` is the rest as JSON."""

    answer: Mapping[str, Any] = field(default_factory=dict)
    hits: Sequence[Hit] = ()
    error: RAGError | None = None
    duration_ms: float = 0.0


class Tools(Protocol):
    """What an agent may call in one run. ``deadline`` ends the run's loop."""

    deadline: Deadline
    # The keys of memories that were told.
    recalled: set[str]

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """Return what the model is told of its tools."""

    @property
    def searches_stores(self) -> bool:
        """Return whether the agent may search its stores."""

    @property
    def knows_more(self) -> bool:
        """Return whether some tool may know what no store holds."""

    @property
    def calling(self) -> str:
        """Return how the model calls tools, one of CALLINGS."""

    def learn(self, calling: str) -> None:
        """Remember that the model's server took this way."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool with the rights of who asks; what fails is a result, too."""


def call_key(name: str, arguments: Mapping[str, Any]) -> str:
    """Return one text for calls that differ in nothing but case and spaces."""
    return f"{name} {json.dumps(_plain(arguments), sort_keys=True, ensure_ascii=False)}"


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.casefold().split())
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value

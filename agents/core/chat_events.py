"""Events of answers and of flow runs as they are stored and sent, and an answer's transcript."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

# After one of these the stream ends.
LAST_KINDS = frozenset({"done", "error", "stopped"})


@dataclass(frozen=True, slots=True)
class ChatEvent:
    """One event; ``seq`` rises within its answer and is the id to go on after.

    ``kind`` is start, step, rewrite, sources, tool_call, tool_result, agent_call, agent_result,
    delta, citation, replace, notice, usage, done, error or stopped.
    The texts of all ``delta`` events, from the last ``replace`` on, are the answer's text.
    """

    seq: int
    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Transcript:
    """An answer as its events have told it so far."""

    text: str = ""
    citations: list[dict[str, Any]] = field(default_factory=list)
    sources: list[dict[str, Any]] = field(default_factory=list)
    notices: list[dict[str, Any]] = field(default_factory=list)
    timings_ms: dict[str, float] = field(default_factory=dict)

    def add(self, kind: str, data: Mapping[str, Any]) -> None:
        """Take in an event."""
        if kind == "delta":
            self.text += data["text"]
        elif kind == "citation":
            self.citations.append(dict(data))
        elif kind == "replace":
            self.text, self.citations = data["text"], list(data["citations"])
        elif kind == "sources":
            self.sources = list(data["sources"])
        elif kind == "notice":
            self.notices.append(dict(data))
        elif kind == "step":
            # A step of a loop is there several times.
            spent_ms = self.timings_ms.get(data["step"], 0.0) + data["duration_ms"]
            self.timings_ms[data["step"]] = round(spent_ms, 1)


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """One event; ``seq`` counts from 1 within its run and is the id to go on after.

    ``kind`` is run_started, node_started, model_answer, model_failed, token, draft, rag_results,
    passages, tool, subflow, node_finished, route, node_failed, decided or continued. After paused,
    done, error and cancelled the stream ends; a paused run has more when it is resumed. A token
    is for people; a draft is what a model writes for the flow: JSON, calls of tools, repairs.
    """

    seq: int
    kind: str
    node: str
    data: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form of streams and APIs."""
        at = self.at.isoformat() if self.at else None
        return {
            "seq": self.seq,
            "event": self.kind,
            "node": self.node,
            "data": dict(self.data),
            "at": at,
        }

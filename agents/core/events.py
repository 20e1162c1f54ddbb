"""What happens in a run of a flow, as everybody is told it: stored row by row, sent in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

# After one of these a run's stream ends; a paused run has more when it is resumed.
LAST_KINDS = frozenset({"done", "error", "cancelled", "paused"})
KINDS = (
    "run_started", "node_started", "model_answer", "token", "rag_results", "tool", "node_finished",
    "route", "node_failed", "paused", "decided", "continued", "done", "error", "cancelled",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """One event; ``seq`` counts from 1 within its run and is the id to go on after."""

    seq: int
    kind: str
    node: str
    data: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form of streams and APIs."""
        at = self.at.isoformat() if self.at else None
        return {
            "seq": self.seq, "event": self.kind, "node": self.node, "data": dict(self.data),
            "at": at,
        }  # fmt: skip

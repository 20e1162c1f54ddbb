"""Flow events: what is published of a flow run, stored row by row and sent in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """One event; ``seq`` counts from 1 within its run and is the id to go on after.

    ``kind`` is run_started, node_started, model_answer, token, rag_results, tool, node_finished,
    route, node_failed, decided or continued. After paused, done, error and cancelled the stream
    ends; a paused run has more when it is resumed.
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

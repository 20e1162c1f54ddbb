"""Trace of an answer: its decisions, model calls and cost as JSON."""

from __future__ import annotations

from typing import Any

from agents.chat.history.evidence import redact_unreadable
from agents.chat.history.history import find_message
from rag.core.access import Scope
from rag.services.usage import run_calls


def answer_trace(*, key: str, scope: Scope) -> dict[str, Any]:
    """Return what one's own answer decided, JSON-safe; raise NotFoundError for another's."""
    message = find_message(key=key, scope=scope)
    fields = ("seq", "kind", "name", "outcome", "duration_ms", "data", "at")
    shown = redact_unreadable(messages=[message], scope=scope)[message.pk]
    steps = list(message.trace.order_by("seq").values(*fields))
    if shown.is_reduced:
        # Arguments of calls are words of a model.
        steps = [one if one["kind"] == "sources" else {**one, "data": {}} for one in steps]
    calls = run_calls(run=str(message.key), scope=scope)
    cost: dict[str, Any] = {}
    for call in calls:
        if call["cost"] is not None:
            cost[call["currency"]] = cost.get(call["currency"], 0) + call["cost"]
    return {
        "message": str(message.key),
        "status": message.status,
        "outcome": message.outcome,
        "query": shown.query,
        "model": message.model,
        "confidence": message.confidence,
        "timings_ms": message.timings_ms,
        "usage": message.usage,
        "steps": steps,
        "calls": calls,
        "cost": cost,
        "is_cost_complete": all(call["cost"] is not None for call in calls),
    }

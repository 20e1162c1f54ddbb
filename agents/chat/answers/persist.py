"""Persistence of answer events: event rows, trace steps that outlive them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents import models
from agents.core.chat_events import ChatEvent
from rag.services.usage import ModelCall, record_call

KINDS = frozenset(
    {
        "step",
        "rewrite",
        "sources",
        "tool_call",
        "tool_result",
        "agent_call",
        "agent_result",
        "notice",
        "usage",
        "error",
        "stopped",
    }
)
_HIT = ("doc_id", "chunk_id", "revision", "file_id", "store_id", "source", "external_id", "score")
# What is a text stands in the message or in its documents, and is not kept twice.
_TEXTS = frozenset({"text", "answer", "content", "query", "original", "citations", "message"})
_COLUMNS = frozenset({"step", "tool", "agent", "outcome", "status", "code", "duration_ms"})
MAX_CHARACTERS, MAX_DEPTH, MAX_ITEMS = 500, 4, 50


def trace_steps(
    *, message_id: int, events: Iterable[ChatEvent], at: datetime
) -> list[models.TraceStep]:
    """Return a row for each event that tells a decision; texts are left out, but for arguments."""
    return [
        models.TraceStep(
            message_id=message_id,
            seq=event.seq,
            kind=event.kind,
            at=at,
            data=_facts(event),
            name=_word(event.data, "step", "tool", "agent", "model")[:100],
            outcome=_word(event.data, "outcome", "status", "code")[:20],
            duration_ms=_number(event.data.get("duration_ms")),
        )
        for event in events
        if event.kind in KINDS
    ]


def _facts(event: ChatEvent) -> dict[str, Any]:
    if event.kind == "sources":
        hits = event.data.get("sources", [])
        return {"hits": [{name: hit[name] for name in _HIT if name in hit} for hit in hits]}
    gone = _TEXTS | _COLUMNS
    return {name: _short(value) for name, value in event.data.items() if name not in gone}


def _short(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return value if len(value) <= MAX_CHARACTERS else f"{value[:MAX_CHARACTERS]}…"
    if depth >= MAX_DEPTH:
        return None if isinstance(value, (Mapping, list, tuple)) else value
    if isinstance(value, Mapping):
        return {str(name): _short(one, depth + 1) for name, one in list(value.items())[:MAX_ITEMS]}
    if isinstance(value, (list, tuple)):
        return [_short(one, depth + 1) for one in value[:MAX_ITEMS]]
    return value


def _word(data: Mapping[str, Any], *names: str) -> str:
    return next((found for name in names if isinstance(found := data.get(name), str)), "")


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def persist_events(
    message_id: int,
    events: Sequence[ChatEvent],
    guard: Callable[[], bool] | None = None,
    calls: Sequence[ModelCall] = (),
) -> bool:
    """Write events down with ``guard`` in one transaction; none when that returns False.

    What ``calls`` of models have cost is written with them, in any case.
    """
    now = timezone.now()
    rows = [
        models.MessageEvent(
            message_id=message_id, seq=one.seq, kind=one.kind, data=one.data, at=now
        )
        for one in events
    ]
    steps = trace_steps(message_id=message_id, events=events, at=now)
    with transaction.atomic():
        is_ours = guard is None or guard()
        if is_ours:
            models.MessageEvent.objects.bulk_create(rows)
            models.TraceStep.objects.bulk_create(steps)
        # Last, for the budgets of a key are locked until the end.
        for call in calls:
            record_call(call=call)
    return is_ours

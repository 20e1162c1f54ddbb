"""Events of an answer in the database. In: events. Out: rows, cleared away when they are old."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from agents import models
from agents.core.chat import ChatEvent
from agents.services.trace_events import trace_steps
from rag.services.record_usage import Call, record_call


def store_events(
    message_id: int, events: Sequence[ChatEvent], along: Callable[[], bool] | None = None,
    calls: Sequence[Call] = (),
) -> bool:  # fmt: skip
    """Write events down with ``along`` in one transaction; none when that returns False.

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
        is_ours = along is None or along()
        if is_ours:
            models.MessageEvent.objects.bulk_create(rows)
            models.TraceStep.objects.bulk_create(steps)
        # Last, for the budgets of a key are locked until the end.
        for call in calls:
            record_call(call=call)
    return is_ours


def clear_events(*, older_than_h: float) -> int:
    """Delete the events of answers that ended so long ago; return how many went.

    The answers stay: only nobody can listen to them again word by word.
    """
    late = timezone.now() - timedelta(hours=older_than_h)
    old = models.MessageEvent.objects.filter(message__created_at__lt=late)
    ended = old.exclude(message__status=models.Message.Status.RUNNING)
    return int(ended._raw_delete("default"))

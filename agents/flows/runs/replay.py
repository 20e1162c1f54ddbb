"""Event replay of a flow run: its events from any sequence number on, then live ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial

from agents import models
from agents.core.flow_events import FlowEvent
from agents.flows.runs.redact import redact_hits
from agents.flows.runs.worker import FlowWorker
from agents.runtime.event_log import replay_events
from agents.runtime.scopes import run_scope

_RUNNING = models.FlowRun.Status.RUNNING


def replay_run_events(*, run_id: int, after: int = 0) -> AsyncGenerator[FlowEvent, None]:
    """Yield the events with a number above ``after``, then new ones until the run stands still.

    A run of another process is followed through the database. Passages that are gone by now, or
    hidden from the run's user, are empty in what is read there.
    """
    live = partial(FlowWorker.find_live, run_id)
    return replay_events(partial(_stored, run_id), live, after=after, is_read_first=True)


def _stored(run_id: int, after: int) -> tuple[bool, list[FlowEvent]]:
    # First the status: what is read after it is complete if the run had ended.
    is_running = models.FlowRun.objects.filter(pk=run_id, status=_RUNNING).exists()
    rows = models.RunEvent.objects.filter(run_id=run_id, seq__gt=after).order_by("seq")
    events = [row.event for row in rows]
    if not events:
        return is_running, events
    run = models.FlowRun.objects.select_related("user").get(pk=run_id)
    redacted = redact_hits(values=[event.data for event in events], scope=run_scope(run=run))
    return is_running, [
        replace(event, data=data) for event, data in zip(events, redacted, strict=True)
    ]

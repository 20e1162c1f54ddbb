"""Event replay of a flow run: its events from any sequence number on, then live ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from agents import models
from agents.core.flow_events import FlowEvent
from agents.flows.runs.redact import redact_hits
from agents.flows.runs.worker import ACTIVE_RUNS
from agents.runtime.scopes import run_scope
from rag.services.threads import run_thread_sensitive

POLL_S = 0.5
_RUNNING = models.FlowRun.Status.RUNNING


async def replay_run_events(*, run_id: int, after: int = 0) -> AsyncGenerator[FlowEvent, None]:
    """Yield the events with a number above ``after``, then new ones until the run stands still.

    A run of another process is followed through the database. Passages that are gone by now, or
    hidden from the run's user, are empty in what is read there.
    """
    worker = ACTIVE_RUNS.get(run_id)
    # Before the rows are read, so that nothing is missed between the two.
    queue = worker.follow() if worker else None
    try:
        async with aclosing(_followed(run_id, after, queue)) as events:
            async for event in events:
                yield event
    finally:
        if worker and queue in worker.followers:
            worker.followers.remove(queue)


async def _followed(
    run_id: int, after: int, queue: asyncio.Queue[FlowEvent | None] | None
) -> AsyncGenerator[FlowEvent, None]:
    while True:
        is_running = queue is None and await run_thread_sensitive(_is_running, run_id)
        for event in await run_thread_sensitive(_stored, run_id, after):
            yield event
            after = event.seq
        if queue is None:
            if not is_running:
                return
            await asyncio.sleep(POLL_S)
            continue
        while (new := await queue.get()) is not None:
            if new.seq > after:
                yield new
                after = new.seq
        queue = None


def _is_running(run_id: int) -> bool:
    return models.FlowRun.objects.filter(pk=run_id, status=_RUNNING).exists()


def _stored(run_id: int, after: int) -> list[FlowEvent]:
    rows = models.RunEvent.objects.filter(run_id=run_id, seq__gt=after).order_by("seq")
    events = [row.event for row in rows]
    if not events:
        return events
    run = models.FlowRun.objects.select_related("user").get(pk=run_id)
    redacted = redact_hits(values=[event.data for event in events], scope=run_scope(run=run))
    return [replace(event, data=data) for event, data in zip(events, redacted, strict=True)]

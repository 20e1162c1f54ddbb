"""Runs of flows. In: a flow, a message, who asks. Out: the run as it ends, or its events."""

from __future__ import annotations

from collections.abc import AsyncIterator

from asgiref.sync import async_to_sync

from agents import models
from agents.core.events import FlowEvent
from agents.services.continue_run import begin_run, continue_run
from agents.services.follow_run import follow_run
from agents.services.in_db import in_db
from agents.services.start_run import RunRequest, start_run


async def arun_flow(*, request: RunRequest) -> models.FlowRun:
    """Return the run when it is done, paused, failed or cancelled; ``error`` says what failed."""
    run = await in_db(start_run, request=request)
    return await continue_run(run=run)


def run_flow(*, request: RunRequest) -> models.FlowRun:
    """Do what ``arun_flow`` does, for callers without an event loop."""
    return async_to_sync(arun_flow)(request=request)


async def stream_flow(*, request: RunRequest) -> AsyncIterator[FlowEvent]:
    """Yield a run's events as they come; who leaves early does not end the run.

    Raises before the first event for wrong input; what fails later is the event ``error``.
    """
    run = await in_db(start_run, request=request)
    await begin_run(run=run)
    async for event in follow_run(run_id=run.pk):
        yield event

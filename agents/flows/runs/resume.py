"""Running and resuming flow runs in this process, and leaving them to others when it ends."""

from __future__ import annotations

import contextvars

from agents import models
from agents.flows.runs.lease import acquire_lease
from agents.flows.runs.worker import FlowWorker
from rag.core.errors import ConflictError
from rag.services.threads import run_thread_sensitive

RELEASE_S = 5.0


async def run_in_background(*, run: models.FlowRun) -> None:
    """Let a run go on in this process while the caller does something else.

    Raises ConflictError while it is at work elsewhere.
    """
    worker = FlowWorker(await run_thread_sensitive(acquire_lease, run=run))
    worker.start(contextvars.Context())


async def run_to_end(*, run: models.FlowRun) -> models.FlowRun:
    """Work a run off from where it stands and return it; finished nodes are not repeated."""
    await FlowWorker(await run_thread_sensitive(acquire_lease, run=run)).work()
    rows = models.FlowRun.objects.select_related("version__flow")
    return await run_thread_sensitive(rows.get, pk=run.pk)


def release_all() -> None:
    """Give up all runs of this process as they stand, from any thread; others go on with them."""
    for worker in list(FlowWorker.active.values()):
        worker.stop(is_cancelled=False)


async def release_all_and_wait() -> None:
    """Do what ``release_all`` does and return when it is done, after five seconds at latest."""
    release_all()
    await FlowWorker.stopped(RELEASE_S)


async def resume_abandoned(*, run_id: int) -> bool:
    """Let a run go on in this process; return False when it needs nobody any more.

    It goes on beside the caller's next jobs: a run mostly waits for its models.
    """
    running = models.FlowRun.objects.filter(pk=run_id, status=models.FlowRun.Status.RUNNING)
    run = await run_thread_sensitive(running.first)
    if run is None:
        return False
    try:
        await run_in_background(run=run)
    except ConflictError:
        return False
    return True

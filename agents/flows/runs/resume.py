"""Running and resuming flow runs in this process, and queueing jobs for abandoned ones."""

from __future__ import annotations

import asyncio
import contextvars
import logging

from agents import models
from agents.flows.runs.lease import abandoned_run_ids, acquire_lease
from agents.flows.runs.release import enqueue_run
from agents.flows.runs.worker import ACTIVE_RUNS, FlowWorker
from rag.core.errors import ConflictError
from rag.services.threads import run_thread_sensitive

logger = logging.getLogger(__name__)
_TASKS: set[asyncio.Task[models.FlowRun]] = set()
LEAVE_S = 5.0


async def run_in_background(*, run: models.FlowRun) -> None:
    """Let a run go on in this process while the caller does something else.

    Raises ConflictError while it is at work elsewhere.
    """
    worker = FlowWorker(await run_thread_sensitive(acquire_lease, run=run))
    # Without the request's context: its threads end before the run may.
    task = asyncio.create_task(worker.work(), context=contextvars.Context())
    _TASKS.add(task)
    task.add_done_callback(_ended)


async def run_to_end(*, run: models.FlowRun) -> models.FlowRun:
    """Work a run off from where it stands and return it; finished nodes are not repeated."""
    return await FlowWorker(await run_thread_sensitive(acquire_lease, run=run)).work()


def release_all() -> None:
    """Give up all runs of this process as they stand, from any thread; others go on with them."""
    for worker in list(ACTIVE_RUNS.values()):
        worker.stop(is_cancelled=False)


async def release_all_and_wait() -> None:
    """Do what ``release_all`` does and return when it is done, after five seconds at latest."""
    release_all()
    if _TASKS:
        await asyncio.wait(_TASKS, timeout=LEAVE_S)


def _ended(task: asyncio.Task[models.FlowRun]) -> None:
    _TASKS.discard(task)
    if not task.cancelled() and (fault := task.exception()) is not None:
        logger.error("a run of a flow has a fault", exc_info=fault)


def enqueue_abandoned_runs() -> int:
    """Queue one job per abandoned run; return how many runs there are."""
    ids = abandoned_run_ids()
    for run_id in ids:
        enqueue_run(run_id=run_id)
    return len(ids)


async def resume_abandoned(*, run_id: int) -> bool:
    """Let a run go on in this process; return False when it needs nobody any more.

    It goes on beside the caller's next jobs: a run mostly waits for its models.
    """
    run = await run_thread_sensitive(_running, run_id)
    if run is None:
        return False
    try:
        await run_in_background(run=run)
    except ConflictError:
        return False
    return True


def _running(run_id: int) -> models.FlowRun | None:
    return models.FlowRun.objects.filter(pk=run_id, status=models.FlowRun.Status.RUNNING).first()

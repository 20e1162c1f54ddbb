"""Runs that nobody works on. In: nothing. Out: jobs that go on with them.

A run from where it stands. In: a run. Out: the run as it ends, or at once while it goes on.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging

from agents import models
from agents.flows.runs.claim import abandoned_run_ids, claim
from agents.flows.runs.release import enqueue_run
from agents.flows.runs.worker import AT_WORK, Worker
from agents.runtime.db import in_db
from rag.core.errors import ConflictError

logger = logging.getLogger(__name__)
_TASKS: set[asyncio.Task[models.FlowRun]] = set()
LEAVE_S = 5.0


async def begin_run(*, run: models.FlowRun) -> None:
    """Let a run go on in this process while the caller does something else.

    Raises ConflictError while it is at work elsewhere.
    """
    worker = Worker(await in_db(claim, run=run))
    # Without the request's context: its threads end before the run may.
    task = asyncio.create_task(worker.work(), context=contextvars.Context())
    _TASKS.add(task)
    task.add_done_callback(_ended)


async def continue_run(*, run: models.FlowRun) -> models.FlowRun:
    """Work a run off from where it stands and return it; finished nodes are not repeated."""
    return await Worker(await in_db(claim, run=run)).work()


def leave_runs() -> None:
    """Give up all runs of this process as they stand, from any thread; others go on with them."""
    for worker in list(AT_WORK.values()):
        worker.stop(is_cancelled=False)


async def runs_left() -> None:
    """Do what ``leave_runs`` does and return when it is done, after five seconds at latest."""
    leave_runs()
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


async def adopt_run(*, run_id: int) -> bool:
    """Let a run go on in this process; return False when it needs nobody any more.

    It goes on beside the caller's next jobs: a run mostly waits for its models.
    """
    run = await in_db(_running, run_id)
    if run is None:
        return False
    try:
        await begin_run(run=run)
    except ConflictError:
        return False
    return True


def _running(run_id: int) -> models.FlowRun | None:
    return models.FlowRun.objects.filter(pk=run_id, status=models.FlowRun.Status.RUNNING).first()

"""A run from where it stands. In: a run. Out: the run as it ends, or at once while it goes on.

A process that ends leaves its runs to others.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging

from agents import models
from agents.services.claim import claim
from agents.services.in_db import in_db
from agents.services.worker import AT_WORK, Worker

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

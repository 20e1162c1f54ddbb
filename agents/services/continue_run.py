"""A run from where it stands. In: a run. Out: the run as it ends, or at once while it goes on."""

from __future__ import annotations

import asyncio
import contextvars
import logging

from agents import models
from agents.services.claim import claim
from agents.services.in_db import in_db
from agents.services.worker import Worker

logger = logging.getLogger(__name__)
_TASKS: set[asyncio.Task[models.FlowRun]] = set()


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


def _ended(task: asyncio.Task[models.FlowRun]) -> None:
    _TASKS.discard(task)
    if not task.cancelled() and (fault := task.exception()) is not None:
        logger.error("a run of a flow has a fault", exc_info=fault)

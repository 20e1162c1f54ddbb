"""Runs that nobody works on. In: nothing. Out: jobs that go on with them."""

from __future__ import annotations

from agents import models
from agents.services.claim import abandoned_run_ids
from agents.services.continue_run import begin_run
from agents.services.in_db import in_db
from agents.services.leave_run import enqueue_run
from rag.core.errors import ConflictError


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

"""Runs whose process has died. In: nothing. Out: jobs that go on with them."""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync
from procrastinate.exceptions import AlreadyEnqueued

from agents import models
from agents.services.claim import abandoned_run_ids
from agents.services.continue_run import continue_run
from rag.core.errors import ConflictError


def defer_abandoned_runs(*, defer: Any) -> int:
    """Enqueue one job of the task ``defer`` per abandoned run; return how many there are."""
    ids = abandoned_run_ids()
    for run_id in ids:
        try:
            defer.configure(queueing_lock=f"agents.run.{run_id}").defer(run_id=run_id)
        except AlreadyEnqueued:
            continue
    return len(ids)


def adopt_run(*, run_id: int) -> bool:
    """Go on with a run to its end; return False when it needs nobody any more."""
    run = models.FlowRun.objects.filter(pk=run_id, status=models.FlowRun.Status.RUNNING).first()
    if run is None:
        return False
    try:
        async_to_sync(continue_run)(run=run)
    except ConflictError:
        return False
    return True

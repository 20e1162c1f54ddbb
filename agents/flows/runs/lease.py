"""Lease of flow runs: acquire it, or release it to a queue job that resumes the run elsewhere."""

from __future__ import annotations

from contextlib import suppress

from django.db import transaction
from django.db.models import Q
from procrastinate.contrib.django import app
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.exceptions import AlreadyEnqueued
from procrastinate.jobs import JobDeferrer
from procrastinate.manager import JobManager

from agents import models
from agents.runtime.worker import abandoned, close_lease, is_expired, new_lease
from rag.core.errors import ConflictError

_STATUS = models.FlowRun.Status
# On Django's connection: a queue worker that ends has closed its own when it leaves its runs.
_JOBS = JobManager(DjangoConnector())


def acquire_lease(*, run: models.FlowRun) -> models.FlowRun:
    """Return the run as this caller's own; raise ConflictError while another works on it.

    Only runs that are running, or failed and are tried again, can be acquired.
    """
    is_free = Q(status=_STATUS.RUNNING) & (Q(worker=None) | is_expired())
    rows = models.FlowRun.objects.filter(is_free | Q(status=_STATUS.ERROR), pk=run.pk)
    if not rows.update(**new_lease(), status=_STATUS.RUNNING, error=None, ended_at=None):
        raise ConflictError("The run is at work already, or has ended.", hint="Look at its status.")
    joined = models.FlowRun.objects.select_related("version__flow", "user", "replay_of")
    return joined.get(pk=run.pk)


def release_lease(*, run: models.FlowRun) -> None:
    """Give a run up as it stands, for another process to go on with; nothing if it has one."""
    with transaction.atomic():
        if close_lease(run, {"status": _STATUS.RUNNING}):
            enqueue_run(run_id=run.pk)


def enqueue_run(*, run_id: int) -> None:
    """Queue a job that goes on with a run; one that waits already is enough."""
    job = app.configure_task("agents.adopt_run", queueing_lock=f"agents.run.{run_id}").job
    with suppress(AlreadyEnqueued), transaction.atomic():
        JobDeferrer(job_manager=_JOBS, job=job).defer(run_id=run_id)


def enqueue_abandoned_runs() -> int:
    """Queue one job per run that is running, but whose lease has expired; return how many."""
    ids = list(abandoned(models.FlowRun).values_list("pk", flat=True))
    for run_id in ids:
        enqueue_run(run_id=run_id)
    return len(ids)

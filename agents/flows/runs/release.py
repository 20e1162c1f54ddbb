"""Release of a run's lease: the run is free, and a queue job resumes it in another process."""

from __future__ import annotations

from contextlib import suppress

from django.db import transaction
from procrastinate.contrib.django import app
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.exceptions import AlreadyEnqueued
from procrastinate.jobs import JobDeferrer
from procrastinate.manager import JobManager

from agents import models
from agents.flows.runs.lease import close_run

# On Django's connection: a queue worker that ends has closed its own when it leaves its runs.
_JOBS = JobManager(DjangoConnector())


def release_lease(*, run: models.FlowRun) -> None:
    """Give a run up as it stands, for another process to go on with; nothing if it has one."""
    with transaction.atomic():
        if close_run(run, {"status": models.FlowRun.Status.RUNNING}):
            enqueue_run(run_id=run.pk)


def enqueue_run(*, run_id: int) -> None:
    """Queue a job that goes on with a run; one that waits already is enough."""
    job = app.configure_task("agents.adopt_run", queueing_lock=f"agents.run.{run_id}").job
    with suppress(AlreadyEnqueued), transaction.atomic():
        JobDeferrer(job_manager=_JOBS, job=job).defer(run_id=run_id)

"""Consistency checks of the queue: stalled, late and failed jobs, files without a job."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings

from rag.providers.procrastinate_queue import (
    Job,
    failed_jobs,
    files_without_job,
    late_jobs,
    stalled_jobs,
    worker_silence_s,
)
from rag.services.operations.check_result import CheckResult
from rag.services.operations.recovery import recover_jobs

LATE_S = 3600


def check_job_queue() -> Iterator[CheckResult]:
    """Report jobs of dead workers, jobs that wait for too long, jobs that failed, and no worker."""
    after_s = settings.PROCRASTINATE_WORKER_DEFAULTS["stalled_worker_timeout"]
    n_stalled = stalled_jobs(jobs=Job.objects.all()).count()
    if n_stalled:
        yield CheckResult(
            "jobs",
            "warning",
            f"{n_stalled} jobs are in the hands of dead workers",
            "Give them to living ones.",
            facts={"jobs": n_stalled},
            fix=_recover,
        )
    for queue, n, age_s in late_jobs(LATE_S):
        yield CheckResult(
            "jobs",
            "warning",
            f"{n} jobs of the queue {queue} wait, the oldest for {age_s} s",
            "Start a worker, or more of them: manage.py procrastinate worker.",
            facts={"queue": queue, "jobs": n, "age_s": age_s},
        )
    for task, n in failed_jobs():
        yield CheckResult(
            "jobs",
            "note",
            f"{n} jobs {task} failed within the last week",
            "The admin's list of jobs and the log say why.",
            facts={"task": task, "jobs": n},
        )
    silence_s = worker_silence_s()
    if silence_s is None or silence_s >= 2 * after_s:
        yield CheckResult(
            "jobs",
            "warning",
            "no queue worker is running",
            "Start one: manage.py procrastinate worker.",
        )


def check_stuck_files() -> Iterator[CheckResult]:
    """Report files that are said to be processed though no job is there for them."""
    waiting = files_without_job()
    if waiting:
        ids = [file_id for file_id, _ in waiting]
        yield CheckResult(
            "files",
            "error",
            f"{len(ids)} files wait for a job that is not there",
            "Queue them.",
            facts={"files": ids[:20]},
            fix=_recover,
        )


def _recover() -> str:
    return f"brought {recover_jobs()} jobs and files back"

"""Consistency checks of the queue: stalled, late and failed jobs, files without a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db import connection

from rag.providers.procrastinate_queue import files_without_job
from rag.services.operations.check_result import CheckResult
from rag.services.operations.recovery import recover_jobs

LATE_S = 3600
_STALLED = """
SELECT count(*) FROM procrastinate_jobs j LEFT JOIN procrastinate_workers w ON w.id = j.worker_id
WHERE j.status = 'doing' AND (w.id IS NULL OR w.last_heartbeat < now() - %s * interval '1 second')
"""
_LATE = """
SELECT j.queue_name, count(*), max(extract(epoch FROM now() - coalesce(j.scheduled_at, e.at)))::int
FROM procrastinate_jobs j
LEFT JOIN LATERAL (SELECT min(at) AS at FROM procrastinate_events WHERE job_id = j.id) e ON true
WHERE j.status = 'todo' AND coalesce(j.scheduled_at, e.at) < now() - %s * interval '1 second'
GROUP BY 1 ORDER BY 1
"""
_FAILED = """
SELECT task_name, count(*) FROM procrastinate_jobs WHERE status = 'failed' GROUP BY 1 ORDER BY 1
"""


def check_job_queue() -> Iterator[CheckResult]:
    """Report jobs of dead workers, jobs that wait for too long, jobs that failed, and no worker."""
    after_s = settings.PROCRASTINATE_WORKER_DEFAULTS["stalled_worker_timeout"]
    ((n_stalled,),) = _rows(_STALLED, [after_s])
    if n_stalled:
        yield CheckResult(
            "jobs",
            "warning",
            f"{n_stalled} jobs are in the hands of dead workers",
            "Give them to living ones.",
            facts={"jobs": n_stalled},
            fix=_recover,
        )
    for queue, n, age_s in _rows(_LATE, [LATE_S]):
        yield CheckResult(
            "jobs",
            "warning",
            f"{n} jobs of the queue {queue} wait, the oldest for {age_s} s",
            "Start a worker, or more of them: manage.py procrastinate worker.",
            facts={"queue": queue, "jobs": n, "age_s": age_s},
        )
    for task, n in _rows(_FAILED):
        yield CheckResult(
            "jobs",
            "note",
            f"{n} jobs {task} failed within the last week",
            "The admin's list of jobs and the log say why.",
            facts={"task": task, "jobs": n},
        )
    ((n_workers,),) = _rows(
        "SELECT count(*) FROM procrastinate_workers WHERE last_heartbeat"
        " > now() - %s * interval '1 second'",
        [2 * after_s],
    )
    if not n_workers:
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


def _rows(statement: str, params: Any = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return list(cursor.fetchall())


def _recover() -> str:
    return f"brought {recover_jobs()} jobs and files back"

"""Job queue: procrastinate on the same Postgres, and all that ``rag`` knows of its tables."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.expressions import RawSQL
from procrastinate import JobContext as JobContext
from procrastinate import RetryStrategy as RetryStrategy
from procrastinate.contrib.django import app as app
from procrastinate.contrib.django.models import (
    ProcrastinateEvent,
    ProcrastinateJob,
    ProcrastinateWorker,
)
from procrastinate.exceptions import AlreadyEnqueued

Job, JobEvent = ProcrastinateJob, ProcrastinateEvent
_WITHOUT_JOB = """
SELECT f.id, coalesce((SELECT (j.args->>'fresh_vectors')::boolean FROM procrastinate_jobs j
  WHERE j.lock = 'file:' || f.id ORDER BY j.id DESC LIMIT 1), false)
FROM rag_file f WHERE f.status = 'processing' AND NOT EXISTS (
  SELECT FROM procrastinate_jobs j WHERE j.lock = 'file:' || f.id AND j.status IN ('todo', 'doing'))
ORDER BY f.id
"""
# Turns are seconds since then, as far as a priority is a whole number of 32 bits.
_EPOCH = 1_767_225_600
_OVERTAKING = """
SELECT EXISTS (SELECT FROM procrastinate_jobs j WHERE j.status = 'todo' AND j.queue_name = %s
  AND j.priority > %s AND (j.scheduled_at IS NULL OR j.scheduled_at <= now())
  AND NOT EXISTS (SELECT FROM procrastinate_jobs o WHERE o.lock = j.lock AND o.status = 'doing'))
"""
_WAITING_FILES = """
SELECT f.id, f.size, f.name, f.n_chunks FROM procrastinate_jobs j
  JOIN rag_file f ON f.id = (j.args->>'file_id')::bigint
WHERE j.status = 'todo' AND j.task_name = 'rag.index_file'
  AND (j.scheduled_at IS NULL OR j.scheduled_at <= now())
ORDER BY j.priority DESC, j.id
"""
# Locked rows are being finished, or brought back by another worker.
_RETRY_STALLED = """
WITH stalled AS (
  SELECT j.id FROM procrastinate_jobs j LEFT JOIN procrastinate_workers w ON w.id = j.worker_id
  WHERE j.status = 'doing'
    AND (w.id IS NULL OR w.last_heartbeat < now() - %s * interval '1 second')
  FOR UPDATE OF j SKIP LOCKED)
UPDATE procrastinate_jobs SET status = 'todo', attempts = attempts + 1, scheduled_at = now(),
  queueing_lock = NULL
WHERE id IN (SELECT id FROM stalled)
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
# name, help, labels, and rows of (labels..., value).
GAUGES: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    (
        "jobs",
        "Jobs in the queue, by what becomes of them.",
        ("queue", "status"),
        "SELECT queue_name, status::text, count(*) FROM procrastinate_jobs"
        " WHERE status IN ('todo', 'doing', 'failed') GROUP BY 1, 2",
    ),
    (
        "oldest_job_age_seconds",
        "How long the oldest job that could run has waited.",
        ("queue",),
        "SELECT j.queue_name, extract(epoch FROM now() - min(coalesce(j.scheduled_at, e.at)))"
        " FROM procrastinate_jobs j LEFT JOIN LATERAL (SELECT min(at) AS at"
        " FROM procrastinate_events WHERE job_id = j.id) e ON true WHERE j.status = 'todo'"
        " AND (j.scheduled_at IS NULL OR j.scheduled_at <= now()) GROUP BY 1",
    ),
    (
        "workers",
        "Queue workers that have given a sign of life within a minute.",
        (),
        "SELECT count(*) FROM procrastinate_workers"
        " WHERE last_heartbeat > now() - interval '1 minute'",
    ),
)


def defer(
    task: str, *, lock: str, delay_s: int = 0, expected_s: float = 0.0, **arguments: Any
) -> bool:
    """Queue a task in the caller's transaction; return False when the same one waits already.

    Jobs of one ``lock`` run one after the other. Those with other flags are not the same. Whatever
    is queued in the next ``expected_s`` seconds and expects less goes before it, and nothing later.
    """
    turn = int(time.time() - _EPOCH + delay_s + expected_s)
    later: dict[str, Any] = {"schedule_in": {"seconds": delay_s}} if delay_s else {}
    return _put(task, lock, arguments, priority=-turn, **later)


def _put(task: str, lock: str | None, arguments: Mapping[str, Any], **options: Any) -> bool:
    flags = sorted(name for name, value in arguments.items() if value is True)
    place = ":".join((task, str(lock), *flags))
    job = app.configure_task(task, lock=lock, queueing_lock=place, **options)
    try:
        with transaction.atomic():
            job.defer(**arguments)
    except AlreadyEnqueued:
        return False
    return True


def put_back(job: Any) -> None:
    """Queue a running job once more, in its turn; it begins when this run has ended."""
    _put(job.task_name, job.lock, job.task_kwargs, priority=job.priority)


def has_overtaken(job: Any) -> bool:
    """Return whether a job that could run, and whose turn is before a running one's, waits."""
    ((is_late,),) = _rows(_OVERTAKING, [job.queue, job.priority])
    return bool(is_late)


def waiting_before() -> list[tuple[int, int, str, int]]:
    """Return file, size, name and chunks of each file that waits to be indexed, in their turns."""
    return _rows(_WAITING_FILES, [])


def release_queue_slot(job_id: int | None) -> None:
    """Let a running job give up its place among the waiting ones.

    Otherwise it could not go back there, to be tried again, when its like was queued meanwhile,
    and would block that one for ever.
    """
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET queueing_lock = NULL WHERE id = %s", [job_id])


def retry_stalled(after_s: float) -> int:
    """Queue the jobs again whose worker was silent for so long; return how many."""
    with connection.cursor() as cursor:
        cursor.execute(_RETRY_STALLED, [after_s])
        return int(cursor.rowcount)


def is_waiting(lock: str) -> bool:
    """Tell whether another job of this lock waits for its turn."""
    return Job.objects.filter(lock=lock, status="todo").exists()


def files_without_job() -> list[tuple[int, bool]]:
    """Return files that are said to be processed though no job waits or runs.

    Each comes with whether its last job was to make fresh vectors.
    """
    return _rows(_WITHOUT_JOB, [])


def stalled_jobs(*, jobs: QuerySet[Any]) -> QuerySet[Any]:
    """Return those of ``jobs`` that run by name only: their worker has been silent for too long."""
    after_s = float(settings.PROCRASTINATE_WORKER_DEFAULTS["stalled_worker_timeout"])
    since = RawSQL("now() - %s * interval '1 second'", [after_s])
    alive = ProcrastinateWorker.objects.filter(pk=OuterRef("worker_id"), last_heartbeat__gte=since)
    return jobs.filter(~Exists(alive), status="doing")


def late_jobs(after_s: float) -> list[tuple[str, int, int]]:
    """Return queue, number and greatest age in seconds of jobs that have waited for so long."""
    return _rows(_LATE, [after_s])


def failed_jobs() -> list[tuple[str, int]]:
    """Return the tasks that failed and are still listed, with their numbers."""
    return _rows(_FAILED, [])


def worker_silence_s() -> float | None:
    """Return the seconds since any worker's last heartbeat; None when there was none."""
    ((silence_s,),) = _rows(
        "SELECT extract(epoch FROM now() - max(last_heartbeat)) FROM procrastinate_workers", []
    )
    return None if silence_s is None else float(silence_s)


def cancel_job(job_id: int) -> bool:
    """Take a waiting job out of the queue; return False when it runs or has ended."""
    return app.job_manager.cancel_job_by_id(job_id)


def drop_waiting(locks: Sequence[str]) -> None:
    """Delete the waiting jobs of these locks."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM procrastinate_jobs WHERE status = 'todo' AND lock = ANY(%s)", [[*locks]]
        )


def purge_jobs(**which: Any) -> None:
    """Delete finished jobs: ``nb_hours``, ``queue`` and ``include_…`` as the library has them."""
    async_to_sync(app.job_manager.delete_old_jobs)(**which)


async def work_until(stop: threading.Event) -> None:
    """Run a worker in this process until ``stop`` is set or the worker ends."""
    connector: Any = app.connector
    with app.replace_connector(connector.get_worker_connector()) as worker_app:
        async with worker_app.open_async():
            task = asyncio.create_task(
                worker_app.run_worker_async(install_signal_handlers=False, listen_notify=True)
            )
            while not stop.is_set() and not task.done():
                await asyncio.sleep(0.1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _rows(statement: str, params: Sequence[Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return list(cursor.fetchall())

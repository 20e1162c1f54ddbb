"""Job queue on procrastinate and the same Postgres; one job per lock."""

from __future__ import annotations

from typing import Any

from django.db import connection, transaction
from procrastinate.contrib.django import app
from procrastinate.exceptions import AlreadyEnqueued

_WITHOUT_JOB = """
SELECT f.id, coalesce((SELECT (j.args->>'fresh_vectors')::boolean FROM procrastinate_jobs j
  WHERE j.lock = 'file:' || f.id ORDER BY j.id DESC LIMIT 1), false)
FROM rag_file f WHERE f.status = 'processing' AND NOT EXISTS (
  SELECT FROM procrastinate_jobs j WHERE j.lock = 'file:' || f.id AND j.status IN ('todo', 'doing'))
ORDER BY f.id
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


def defer(task: str, *, lock: str, delay_s: int = 0, **arguments: Any) -> bool:
    """Queue a task in the caller's transaction; return False when the same one waits already.

    Jobs of one ``lock`` run one after the other. Those with other flags are not the same.
    """
    flags = sorted(name for name, value in arguments.items() if value is True)
    later: dict[str, Any] = {"schedule_in": {"seconds": delay_s}} if delay_s else {}
    place = ":".join((task, lock, *flags))
    job = app.configure_task(task, lock=lock, queueing_lock=place, **later)
    try:
        with transaction.atomic():
            job.defer(**arguments)
    except AlreadyEnqueued:
        return False
    return True


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
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE lock = %s AND status = 'todo')",
            [lock],
        )
        return bool(cursor.fetchone()[0])


def files_without_job() -> list[tuple[int, bool]]:
    """Return files that are said to be processed though no job waits or runs.

    Each comes with whether its last job was to make fresh vectors.
    """
    with connection.cursor() as cursor:
        cursor.execute(_WITHOUT_JOB)
        return [(file_id, is_fresh) for file_id, is_fresh in cursor.fetchall()]

"""The queue on the same Postgres. In: a task's name and arguments. Out: a job, once per lock."""

from __future__ import annotations

from typing import Any

from django.db import connection, transaction
from procrastinate.contrib.django import app
from procrastinate.exceptions import AlreadyEnqueued

_WITHOUT_JOB = """
SELECT f.id FROM rag_file f WHERE f.status = 'processing' AND NOT EXISTS (
  SELECT FROM procrastinate_jobs j WHERE j.lock = 'file:' || f.id AND j.status IN ('todo', 'doing'))
"""


def defer(task: str, *, lock: str, delay_s: int = 0, **arguments: Any) -> bool:
    """Queue a task in the caller's transaction; return False when the same one waits already.

    Jobs of one ``lock`` run one after the other.
    """
    later: dict[str, Any] = {"schedule_in": {"seconds": delay_s}} if delay_s else {}
    job = app.configure_task(task, lock=lock, queueing_lock=f"{task}:{lock}", **later)
    try:
        with transaction.atomic():
            job.defer(**arguments)
    except AlreadyEnqueued:
        return False
    return True


def files_without_job() -> list[int]:
    """Return files that are said to be processed though no job is waiting or running."""
    with connection.cursor() as cursor:
        cursor.execute(_WITHOUT_JOB)
        return [row[0] for row in cursor.fetchall()]

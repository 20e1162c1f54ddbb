"""Queue jobs that people may see, cancel and retry, within a scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import CharField, F, QuerySet, Value
from django.db.models.functions import Cast, Concat
from django.utils import timezone

from rag import models
from rag.core.access import Scope
from rag.providers.procrastinate_queue import Job, cancel_job, stalled_jobs
from rag.services.files import cancel_files, retry_files

_FILE = "file:"
_ENDED = ("failed", "cancelled", "aborted")


def visible_jobs(*, scope: Scope, rows: QuerySet[Any] | None = None) -> QuerySet[Any]:
    """Return the queue's jobs, of ``rows`` or all, on editable files; operators see all."""
    jobs: QuerySet[Any] = Job.objects.all() if rows is None else rows
    if scope.is_operator and scope.only_store_ids is None:
        return jobs
    name = Concat(Value(_FILE), Cast("pk", CharField()))
    stores = list(models.Store.objects.editable(scope).values_list("pk", flat=True))
    files = models.File.objects.filter(store_id__in=stores).annotate(lock=name)
    return jobs.filter(lock__in=files.values("lock"))


def cancel_jobs(*, scope: Scope, job_ids: Sequence[int]) -> tuple[int, int]:
    """Take waiting jobs out of the queue; return how many, and how many run already and go on.

    A file whose job is taken out is what it was before. What ``scope`` may not see is passed over.
    """
    jobs = visible_jobs(scope=scope).filter(pk__in=job_ids, status__in=("todo", "doing"))
    file_ids, others = _split(jobs)
    n, n_running = cancel_files(scope=scope, file_ids=file_ids)
    for pk, status in others.values_list("pk", "status"):
        if status == "todo" and cancel_job(pk):
            n += 1
        else:
            n_running += 1
    return n, n_running


def retry_jobs(*, scope: Scope, job_ids: Sequence[int]) -> int:
    """Begin failed, cancelled, aborted and stalled jobs again; return how many.

    A file's job is queued anew unless one waits already. Jobs that run or wait are passed over.
    """
    jobs = visible_jobs(scope=scope).filter(pk__in=job_ids)
    ended, stalled = jobs.filter(status__in=_ENDED), stalled_jobs(jobs=jobs)
    file_ids, others = _split(ended)
    n = retry_files(scope=scope, file_ids=file_ids)
    again: dict[str, Any] = {
        "status": "todo",
        "attempts": F("attempts") + 1,
        "scheduled_at": timezone.now(),
        "queueing_lock": None,
        "abort_requested": False,
        "worker_id": None,
    }
    with transaction.atomic():
        # The queue's own model refuses to be written; its table is a table.
        n += QuerySet.update(others, **again)
        n += QuerySet.update(stalled, **again)
    return n


def _split(jobs: QuerySet[Any]) -> tuple[list[int], QuerySet[Any]]:
    """Return the ids of the files that jobs work on, and the jobs on other things."""
    locks = jobs.filter(lock__startswith=_FILE).values_list("lock", flat=True)
    numbers = {lock.removeprefix(_FILE) for lock in locks}
    others = jobs.exclude(lock__startswith=_FILE)
    return sorted(int(number) for number in numbers if number.isdigit()), others

"""Row-level access for lists: filters query logs and queue jobs to those that a scope may see."""

from __future__ import annotations

from typing import Any

from django.db.models import CharField, Q, QuerySet, Value
from django.db.models.functions import Cast, Concat

from rag import models
from rag.core.access import Scope
from rag.providers.procrastinate_queue import Job


def visible_queries(
    *, scope: Scope, rows: QuerySet[models.QueryLog] | None = None
) -> QuerySet[models.QueryLog]:
    """Return logged queries, of ``rows`` or all, whose stores are all readable, and editable
    unless oneself had asked.

    Operators see all, also those of stores that are gone.
    """
    rows = models.QueryLog.objects.all() if rows is None else rows
    if scope.is_operator and scope.only_store_ids is None:
        return rows
    stores = models.Store.objects
    editable = list(stores.editable(scope).values_list("pk", flat=True))
    readable = list(stores.readable(scope).values_list("pk", flat=True))
    own = Q(user_id=scope.user_id, store_ids__contained_by=readable)
    return rows.exclude(store_ids=[]).filter(own | Q(store_ids__contained_by=editable))


def visible_jobs(*, scope: Scope, rows: QuerySet[Any] | None = None) -> QuerySet[Any]:
    """Return the queue's jobs, of ``rows`` or all, on editable files; operators see all."""
    jobs: QuerySet[Any] = Job.objects.all() if rows is None else rows
    if scope.is_operator and scope.only_store_ids is None:
        return jobs
    name = Concat(Value("file:"), Cast("pk", CharField()))
    stores = list(models.Store.objects.editable(scope).values_list("pk", flat=True))
    files = models.File.objects.filter(store_id__in=stores).annotate(lock=name)
    return jobs.filter(lock__in=files.values("lock"))

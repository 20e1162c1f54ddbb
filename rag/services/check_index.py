"""Vector indexes: those that lack, those that are broken, and what HNSW finds. Out: findings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from django.db import connection

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.ports import StoreTarget
from rag.providers.postgres.filtered_recall import RecallQuestion, measure_recall
from rag.providers.postgres.spaces import index_name
from rag.services.doctor_finding import Finding
from rag.services.search_targets import search_targets
from rag.services.spaces import build_due_indexes, due_indexes

MIN_RECALL = 0.95
# For all stores together; what is left of the minute is for the other checks.
RECALL_S = 20.0
_INVALID = """
SELECT c.relname FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
JOIN pg_class t ON t.oid = i.indrelid
WHERE NOT i.indisvalid AND (t.relname LIKE 'rag\\_%%' OR t.relname LIKE 'agents\\_%%')
  AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = c.oid)
"""
# The rarest type that still fills a page of results: where a filter hurts most.
_TYPES = """
SELECT content_type, sum(n_chunks) FROM rag_file WHERE store_id = %s GROUP BY 1
HAVING sum(n_chunks) >= 100 ORDER BY 2 LIMIT 1
"""


def missing_indexes() -> Iterator[Finding]:
    """Tell spaces without their shared HNSW index, and stores that should have one of their own."""
    for space in models.EmbeddingSpace.objects.order_by("pk"):
        for store_id in due_indexes(space_id=space.pk):
            whose = "its shared" if store_id is None else f"the own one of store {store_id} of its"
            yield Finding(
                "indexes", "warning",
                f"space {space.pk} ({space.model}) lacks {whose} HNSW index"
                f" {index_name(space.pk, store_id)}",
                "Build it; searches are exact and slower until then.",
                facts={"space": space.pk, "store": store_id},
                fix=partial(_build, space.pk),
            )  # fmt: skip


def broken_indexes() -> Iterator[Finding]:
    """Tell indexes whose build died: they are maintained and never used."""
    with connection.cursor() as cursor:
        cursor.execute(_INVALID)
        names = [row[0] for row in cursor.fetchall()]
    for name in names:
        yield Finding("indexes", "warning", f"the index {name} is not valid", "Drop it.",
                      facts={"index": name}, fix=partial(_drop, name))  # fmt: skip


def recall() -> Iterator[Finding]:
    """Tell how much of the exact answer each large store's searches find, whole and filtered.

    On up to 50 of the store's own vectors a filter, and 20 s in all.
    """
    stores = models.Store.objects.filter(
        backend=models.Store.Backend.LOCAL, n_chunks__gt=conf().hnsw_min_chunks
    )
    targets = search_targets(stores=list(stores), scope=Scope.operator())
    asked = [(target, *one) for target in sorted(targets, key=lambda one: one.n_chunks)
             if target.has_hnsw or target.has_partial for one in _questions(target)]  # fmt: skip
    ends = time.monotonic() + RECALL_S
    for number, (target, filters, question) in enumerate(asked):
        # Each has its share of the time, and what those before have left.
        share_s = (ends - time.monotonic()) / (len(asked) - number)
        found = measure_recall(question, until=time.monotonic() + share_s)
        whose = f"store {target.store_id}: recall@10 with {filters}"
        if not found.n_asked:
            yield Finding("recall", "note", f"{whose} was not measured, time is up")
            continue
        is_good = found.recall >= MIN_RECALL
        yield Finding(
            "recall", "note" if is_good else "warning", f"{whose} is {found.recall:.3f}",
            "" if is_good else f"Build {index_name(target.space_id)} anew: REINDEX CONCURRENTLY.",
            f"sample of {found.n_asked} vectors",
            {"store": target.store_id, "recall": round(found.recall, 4), "filter": filters},
        )  # fmt: skip


def _questions(target: StoreTarget) -> Iterator[tuple[str, RecallQuestion]]:
    yield "no filter", RecallQuestion(target)
    with connection.cursor() as cursor:
        cursor.execute(_TYPES, [target.store_id])
        row = cursor.fetchone()
    if row and row[1] < target.n_chunks:
        yield f"the type {row[0]}", RecallQuestion(target, content_types=(row[0],))
    if models.File.objects.filter(store=target.store_id, restricted_to__isnull=False).exists():
        yield "unrestricted files", RecallQuestion(target, sees_restricted=False)


def _build(space_id: int) -> str:
    return f"built {build_due_indexes(space_id=space_id)} indexes of space {space_id}"


def _drop(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {connection.ops.quote_name(name)}")
    return f"dropped {name}"

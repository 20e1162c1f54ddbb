"""Consistency checks of vector indexes (missing, invalid, recall) and of Milvus."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from django.db import connection

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.errors import NotFoundError
from rag.core.ports import StoreTarget
from rag.models.outbox import WORDS
from rag.providers.milvus.collections import count_chunks
from rag.providers.postgres.db.connections import execute, fetch_rows, release_db
from rag.providers.postgres.outbox.feed_rows import feedable_spaces
from rag.providers.postgres.outbox.rows import outbox_state
from rag.providers.postgres.search.recall import RecallQuestion, measure_recall
from rag.providers.postgres.vectors.spaces import index_name
from rag.services.index import build_pending_indexes, pending_indexes, start_outbox, stop_outbox
from rag.services.operations.check_result import CheckResult
from rag.services.search import resolve_targets
from rag.services.wiring.registry import is_milvus, milvus_server

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
# A search looks at what waits, so a lag costs time before it costs hits.
MAX_LAG_S = 300.0
_WORDS = "SELECT count(*) FROM rag_chunk_lex WHERE enabled AND len > 0"
_VECTORS = "SELECT count(*) FROM rag_chunk_vec_s{space} WHERE enabled"


def check_missing_indexes() -> Iterator[CheckResult]:
    """Report spaces without a shared HNSW index, and stores that should have one of their own."""
    for space in models.EmbeddingSpace.objects.order_by("pk"):
        for store_id in pending_indexes(space_id=space.pk):
            whose = "its shared" if store_id is None else f"the own one of store {store_id} of its"
            yield CheckResult(
                "indexes",
                "warning",
                f"space {space.pk} ({space.model}) lacks {whose} HNSW index"
                f" {index_name(space.pk, store_id)}",
                "Build it; searches are exact and slower until then.",
                facts={"space": space.pk, "store": store_id},
                fix=partial(_build, space.pk),
            )


def check_invalid_indexes() -> Iterator[CheckResult]:
    """Report indexes whose build died: they are maintained and never used."""
    for (name,) in fetch_rows(_INVALID):
        yield CheckResult(
            "indexes",
            "warning",
            f"the index {name} is not valid",
            "Drop it.",
            facts={"index": name},
            fix=partial(_drop, name),
        )


def check_recall() -> Iterator[CheckResult]:
    """Report how much of the exact answer each large store's searches find, whole and filtered.

    On up to 50 of the store's own vectors a filter, and 20 s in all.
    """
    stores = models.Store.objects.filter(
        backend=models.Store.Backend.LOCAL, n_chunks__gt=conf().hnsw_min_chunks
    )
    targets = resolve_targets(stores=list(stores), scope=Scope.operator())
    probes = [
        (target, *one)
        for target in sorted(targets, key=lambda one: one.n_chunks)
        if target.has_hnsw or target.has_partial
        for one in _questions(target)
    ]
    ends = time.monotonic() + RECALL_S
    for number, (target, filters, question) in enumerate(probes):
        # Each has its share of the time, and what those before have left.
        share_s = (ends - time.monotonic()) / (len(probes) - number)
        found = measure_recall(question, until=time.monotonic() + share_s)
        whose = f"store {target.store_id}: recall@10 with {filters}"
        if not found.n_asked:
            yield CheckResult("recall", "note", f"{whose} was not measured, time is up")
            continue
        is_good = found.recall >= MIN_RECALL
        yield CheckResult(
            "recall",
            "note" if is_good else "warning",
            f"{whose} is {found.recall:.3f}",
            "" if is_good else f"Build {index_name(target.space_id)} anew: REINDEX CONCURRENTLY.",
            f"sample of {found.n_asked} vectors",
            {"store": target.store_id, "recall": round(found.recall, 4), "filter": filters},
        )


def _questions(target: StoreTarget) -> Iterator[tuple[str, RecallQuestion]]:
    yield "no filter", RecallQuestion(target)
    for rarest, n_chunks in fetch_rows(_TYPES, [target.store_id]):
        if n_chunks < target.n_chunks:
            yield f"the type {rarest}", RecallQuestion(target, content_types=(rarest,))
    if models.File.objects.filter(store=target.store_id, restricted_to__isnull=False).exists():
        yield "unrestricted files", RecallQuestion(target, sees_restricted=False)


def _build(space_id: int) -> str:
    return f"built {build_pending_indexes(space_id=space_id)} indexes of space {space_id}"


def _drop(name: str) -> str:
    execute(f"DROP INDEX CONCURRENTLY IF EXISTS {connection.ops.quote_name(name)}")
    return f"dropped {name}"


def check_outbox() -> Iterator[CheckResult]:
    """Report changes that nobody notes, that nobody asked for, or that wait for too long."""
    state = outbox_state()
    if state.is_on and not is_milvus():
        yield CheckResult(
            "outbox",
            "warning",
            "changes are noted for Milvus, which nobody asks",
            "Stop it: rag_feed --stop, or set RAG_SEARCH_PROVIDER=milvus.",
            fix=lambda: f"stopped; {stop_outbox()} changes were not fed",
        )
    if not is_milvus():
        return
    if not state.is_on:
        yield CheckResult(
            "outbox",
            "error",
            "searches ask Milvus, and no changes are noted for it",
            "Feed it: rag_feed.",
            fix=_start,
        )
    elif state.lag_s > MAX_LAG_S:
        yield CheckResult(
            "outbox",
            "warning",
            f"{state.n_waiting} changes wait for Milvus, the oldest for {state.lag_s:.0f} s",
            "Start a worker: manage.py procrastinate worker; its log says what fails.",
            facts={"waiting": state.n_waiting, "lag_s": round(state.lag_s)},
        )


def check_milvus_counts() -> Iterator[CheckResult]:
    """Report Milvus collections that hold more or fewer chunks than Postgres, nothing waiting."""
    if not is_milvus() or not outbox_state().is_on:
        return
    for space_id in (WORDS, *feedable_spaces()):
        counting = _VECTORS.format(space=int(space_id)) if space_id else _WORDS
        there, ((here,),) = _n_in_milvus(space_id), fetch_rows(counting)
        if there != here and not outbox_state().n_waiting:
            whose = f"space {space_id}" if space_id else "the words"
            yield CheckResult(
                "milvus",
                "warning",
                f"Milvus holds {there} chunks of {whose}, Postgres {here}",
                "Feed it anew: rag_feed --all.",
                facts={"space": space_id, "there": there, "here": here},
                fix=partial(_start, everything=True),
            )


def _n_in_milvus(space_id: int) -> int:
    release_db()
    try:
        return count_chunks(milvus_server(), space_id)
    except NotFoundError:
        return 0


def _start(*, everything: bool = False) -> str:
    return f"noted {start_outbox(everything=everything)} changes; workers feed them"

"""The one search of all edges. In: query, scope, stores, settings. Out: hits with explanation."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from django.db.models import Exists, F, OuterRef, Subquery, Sum, Value
from django.db.models.functions import Coalesce

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError
from rag.core.ports import FileFilter, IndexQuery, StoreTarget
from rag.core.types import RetrievalSettings, SearchResult
from rag.providers.postgres.route import MAX_EXACT
from rag.providers.postgres.spaces import index_name, valid_indexes
from rag.services import wiring
from rag.services.log_query import log_query
from rag.stages.terms import is_han, is_identifier, query_terms, short_phrase

DEFAULT_TOP_K = 5
MAX_QUERY = 4000
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def search(
    *,
    query: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None = None,
    is_logged: bool = True,
) -> SearchResult:
    """Return the hits of ``query`` in ``stores`` that ``scope`` may read.

    ``settings`` None takes the first store's own. Raises InvalidInputError for an empty query.
    """
    started = time.perf_counter()
    query = _UNSTORABLE.sub(" ", query).strip()
    if not query:
        raise InvalidInputError("The query is empty.", hint="Ask something.")
    if len(query) > MAX_QUERY:
        raise InvalidInputError(
            "The query has {n} characters.", hint="Allowed: {limit}.", n=len(query), limit=MAX_QUERY
        )
    if not stores:
        raise InvalidInputError("No store was chosen.", hint="Name at least one.")
    settings = settings or stores[0].retrieval_settings
    mode = "hybrid" if settings.mode == "auto" else settings.mode
    targets = _targets(stores, scope)
    asked = time.perf_counter()
    spaces = {target.space_id for target in targets} if mode != "keyword" else set()
    vectors = {space: wiring.embedder_of(space).embed_query(query) for space in spaces}
    embedded = time.perf_counter()
    terms = query_terms(query) if mode != "semantic" else {}
    index_query = IndexQuery(
        targets=targets, group_ids=scope.group_ids, vectors=vectors, terms=terms, settings=settings,
        codes=frozenset(filter(is_identifier, terms)), is_han=is_han(query),
        phrase=short_phrase(query) if terms else "",
        top_k=settings.top_k or DEFAULT_TOP_K, files=_file_filter(targets, settings),
    )  # fmt: skip
    hits, routes = wiring.index().search(index_query)
    found = time.perf_counter()
    result = SearchResult(
        query=query, hits=tuple(hits), mode=mode, top_k=index_query.top_k,
        settings_hash=settings.hash, routes=routes,
        timings_ms={
            "access": (asked - started) * 1e3, "embed": (embedded - asked) * 1e3,
            "sql": (found - embedded) * 1e3, "total": (found - started) * 1e3,
        },
    )  # fmt: skip
    if is_logged:
        log_query(result=result, scope=scope, store_ids=[target.store_id for target in targets])
    return result


def _targets(stores: Sequence[models.Store], scope: Scope) -> list[StoreTarget]:
    """Return the readable ones of ``stores`` with what the index needs to know of them."""
    total = (
        models.Store.objects.filter(space=OuterRef("space")).values("space")
        .annotate(total=Sum("n_chunks")).values("total")
    )  # fmt: skip
    editable = models.Store.objects.editable(scope).filter(pk=OuterRef("pk"))
    rows = (
        models.Store.objects.readable(scope)
        .filter(pk__in=[store.pk for store in stores])
        .annotate(
            dim=F("space__dim"), is_editable=Exists(editable),
            total=Coalesce(Subquery(total), Value(0)),
        )
        .values_list("pk", "space_id", "dim", "n_chunks", "is_editable", "total")
    )  # fmt: skip
    ready = valid_indexes()
    return [
        StoreTarget(
            store_id=pk, space_id=space_id, dim=dim, n_chunks=n_chunks, sees_restricted=is_editable,
            share=n_chunks / total if total else 1.0,
            has_hnsw=index_name(space_id) in ready, has_partial=index_name(space_id, pk) in ready,
        )
        for pk, space_id, dim, n_chunks, is_editable, total in rows
    ]  # fmt: skip


def _file_filter(targets: Sequence[StoreTarget], settings: RetrievalSettings) -> FileFilter | None:
    if not settings.metadata and not settings.content_types:
        return None
    files = models.File.objects.filter(store_id__in=[target.store_id for target in targets])
    if settings.metadata:
        files = files.filter(metadata__contains=dict(settings.metadata))
    if settings.content_types:
        files = files.filter(content_type__in=settings.content_types)
    rows = files.values_list("pk", "n_chunks")
    n_chunks = sum(n for _, n in rows)
    # A graph finds little of what a rare type leaves; few files are searched exactly instead.
    if not settings.metadata and n_chunks > MAX_EXACT:
        return None
    return FileFilter([pk for pk, _ in rows], n_chunks)

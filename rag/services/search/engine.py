"""Search engine: targets and filters of a scope, query vectors and one hybrid statement.

For ``retrieve`` alone. It follows its settings to the letter: no analysis, no reranking, no cache
of results and no log.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from django.contrib.postgres.aggregates import ArrayAgg
from django.core.exceptions import EmptyResultSet
from django.db.models import Case, Count, Exists, F, OuterRef, Subquery, Sum, Value, When
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce
from django.db.models.lookups import LessThanOrEqual
from numpy.typing import NDArray

from rag import models
from rag.core import metrics
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, NotFoundError
from rag.core.hits import Hit
from rag.core.ports import FileFilter, IndexQuery, StoreTarget
from rag.core.types import RetrievalSettings
from rag.providers.postgres.db.connections import fetch_planned, release_db
from rag.providers.postgres.search.index import MAX_EXACT
from rag.providers.postgres.search.metadata import metadata_condition
from rag.providers.postgres.vectors.spaces import VALID_INDEXES, index_name, valid_indexes
from rag.services.search.result_cache import cache_region
from rag.services.usage import MeteredEmbedder
from rag.services.wiring import registry as wiring
from rag.stages.ranking.metadata_filter import parse_metadata_filter
from rag.stages.text.terms import (
    VERSION,
    content_terms,
    is_han,
    is_identifier,
    short_han_phrase,
)

# The same text has the same vector for ever; what nobody asks for any more still has to go.
VECTOR_TTL_S = 30 * 86400.0
MAX_QUERY = 4000
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Candidates:
    """Hits of the index, best first; the route of each space; the model of each store searched."""

    hits: tuple[Hit, ...]
    routes: Mapping[int, str] = field(default_factory=dict)
    models_of: Mapping[int, str] = field(default_factory=dict)
    timings_ms: Mapping[str, float] = field(default_factory=dict)


@metrics.span("search")
def run_search(
    *,
    query: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings,
    files: FileFilter | None = None,
) -> Candidates:
    """Return up to ``settings.top_k`` chunks of ``stores`` that ``scope`` may read.

    Mode auto asks both legs. ``files`` alone are found, past the settings' filters.
    """
    timer = StageTimer()
    targets = resolve_targets(stores=stores, scope=scope)
    timer.end("access")
    mode = "hybrid" if settings.mode == "auto" else settings.mode
    spaces = {target.space_id for target in targets if mode != "keyword"}
    vectors = {space: embed_query(space_id=space, query=query) for space in spaces}
    timer.end("embed")
    models_of = {target.store_id: target.model for target in targets}
    index_query = IndexQuery(
        targets=targets,
        group_ids=scope.group_ids,
        vectors=vectors,
        settings=settings,
        **(_lexical_query(query, targets) if mode != "semantic" else {"terms": {}}),
        top_k=settings.top_k or 1,
        files=files or file_filter(store_ids=list(models_of), settings=settings),
    )
    hits, routes = wiring.index().search(index_query)
    timer.end("sql")
    spent_ms = timer.elapsed_ms()
    metrics.observe("search", spent_ms["total"] / 1e3, mode=mode)
    return Candidates(tuple(hits), routes, models_of, spent_ms)


def validated_query(*, query: str) -> str:
    """Return what is searched for; raise InvalidInputError when it is empty or too long."""
    query = _UNSTORABLE.sub(" ", query).strip()
    if not query:
        raise InvalidInputError("The query is empty.", hint="Ask something.")
    if len(query) > MAX_QUERY:
        raise InvalidInputError(
            "The query has {n} characters.", hint="Allowed: {limit}.", n=len(query), limit=MAX_QUERY
        )
    return query


def shorten_query(*, query: str) -> str:
    """Return what is searched for of a message: of a long one both ends, where the question is."""
    if len(query) <= MAX_QUERY:
        return query
    half = MAX_QUERY // 2 - 1
    return f"{query[:half]}\n{query[-half:]}"


def embed_query(*, space_id: int, query: str) -> NDArray[np.float32]:
    """Return float32 [dim], bit for bit as the space's own model makes it."""
    embedder = wiring.embedder_of(space_id)
    region = cache_region("vectors")
    model = [embedder.id, embedder.dim, embedder.version]
    name = region.seal.name(json.dumps([*model, query]).encode())
    found = region.find(name)
    region.count("misses" if found is None else "hits")
    if found is not None and len(found) == 4 * embedder.dim:
        return np.frombuffer(found, "<f4").astype(np.float32)
    if isinstance(embedder, MeteredEmbedder):
        # A service may take a minute to answer; a connection held so long is missed by others.
        release_db()
    vector = embedder.embed_query(query)
    region.keep(name, vector.astype("<f4").tobytes(), VECTOR_TTL_S)
    return vector


def _lexical_query(query: str, targets: Sequence[StoreTarget]) -> dict[str, Any]:
    terms = content_terms(query)
    if any(target.terms_version != VERSION for target in targets):
        # Its texts in traditional characters may still be indexed by those.
        terms = {**content_terms(query, is_simplified=False), **terms}
    return {
        "terms": terms,
        "codes": frozenset(filter(is_identifier, terms)),
        "is_han": is_han(query),
        "phrase": short_han_phrase(query) if terms else "",
    }


class StageTimer:
    """Milliseconds of each stage of a search, and of all."""

    def __init__(self) -> None:
        self._began = self._last = time.perf_counter()
        self._ms: dict[str, float] = {}

    def end(self, name: str) -> None:
        """Note the stage that ends now; it began where the one before it ended."""
        now = time.perf_counter()
        self._ms[name], self._last = (now - self._last) * 1e3, now

    def elapsed_ms(self) -> dict[str, float]:
        """Return the stages that have ended, and the time since the beginning as ``total``."""
        return {**self._ms, "total": (time.perf_counter() - self._began) * 1e3}


_SPACES: ContextVar[dict[int, dict[str, Any]] | None] = ContextVar("searched_spaces", default=None)


@contextmanager
def override_space(*, store_id: int, space_id: int | None) -> Iterator[None]:
    """Let ``search`` look at the store's vectors in ``space_id`` while the block runs; None: live.

    Only the calling thread or task is meant. Raises NotFoundError for a space that is not there.
    """
    if space_id is None:
        yield
        return
    space = models.EmbeddingSpace.objects.filter(pk=space_id).first()
    if space is None:
        raise NotFoundError("There is no space {id}.", id=space_id)
    place = {
        "space_id": space.pk,
        "dim": space.dim,
        "model": space.model,
        "has_hnsw": index_name(space.pk) in valid_indexes(),
    }
    token = _SPACES.set({**(_SPACES.get() or {}), store_id: place})
    try:
        yield
    finally:
        _SPACES.reset(token)


# More files are not named to the index, which looks each one up then.
MAX_NAMED = 2000


def resolve_targets(*, stores: Sequence[models.Store], scope: Scope) -> list[StoreTarget]:
    """Return the readable ones of ``stores``, in the space that ``override_space`` may name."""
    try:
        statement = _statement(tuple(store.pk for store in stores), scope)
    except EmptyResultSet:
        # A scope that is limited to no store at all.
        return []
    rows = fetch_planned(*statement)
    moved, targets = _SPACES.get() or {}, []
    for pk, space_id, dim, n_chunks, is_editable, total, model, ready, terms_version in rows:
        target = StoreTarget(
            store_id=pk,
            space_id=space_id,
            dim=dim,
            n_chunks=n_chunks,
            sees_restricted=is_editable,
            share=n_chunks / int(total) if total else 1.0,
            has_hnsw=index_name(space_id) in ready,
            has_partial=index_name(space_id, pk) in ready,
            model=model,
            terms_version=terms_version,
        )
        if (place := moved.get(pk)) and place["space_id"] != space_id:
            target = replace(target, **place, has_partial=False, share=1.0)
        targets.append(target)
    return targets


_COLUMNS = (
    "pk",
    "space_id",
    "dim",
    "n_chunks",
    "is_editable",
    "total",
    "model",
    "ready",
    "terms_version",
)


# Putting the statement together takes three times as long as running it.
@lru_cache(maxsize=1024)
def _statement(store_ids: tuple[int, ...], scope: Scope) -> tuple[str, tuple[Any, ...]]:
    total = (
        models.Store.objects.filter(space=OuterRef("space"))
        .values("space")
        .annotate(total=Sum("n_chunks"))
        .values("total")
    )
    editable = models.Store.objects.editable(scope).filter(pk=OuterRef("pk"))
    rows = (
        models.Store.objects.readable(scope)
        .filter(pk__in=store_ids)
        .annotate(
            dim=F("space__dim"),
            is_editable=Exists(editable),
            total=Coalesce(Subquery(total), Value(0)),
            model=F("space__model"),
            ready=RawSQL(VALID_INDEXES, []),
        )
        .values_list(*_COLUMNS)
    )
    return rows.query.sql_with_params()


def file_filter(*, store_ids: Sequence[int], settings: RetrievalSettings) -> FileFilter | None:
    """Return the files that the settings' filters leave, None where that is for the index.

    Few are named; of many no more is asked than that they are many.
    """
    if not settings.metadata and not settings.content_types:
        return None
    files = models.File.objects.filter(store_id__in=store_ids, n_chunks__gt=0)
    if settings.metadata:
        files = files.filter(metadata__contains=dict(settings.metadata))
    if settings.content_types:
        files = files.filter(content_type__in=settings.content_types)
    # Each has a chunk, so more of them are too many for an exact search.
    some = files.order_by().values("pk", "n_chunks")[: MAX_EXACT + 1]
    n_chunks, ids = Sum("n_chunks", default=0), ArrayAgg("pk", default=[])
    # A graph finds little of what a rare type leaves; few files are searched exactly instead.
    named = [When(LessThanOrEqual(n_chunks, MAX_EXACT), then=ids)]
    if settings.metadata:
        named.append(When(LessThanOrEqual(Count("pk"), MAX_NAMED), then=ids))
    found = some.aggregate(n=n_chunks, ids=Case(*named))
    return None if found["ids"] is None else FileFilter(found["ids"], found["n"])


def files_matching_metadata(*, text: str, stores: Sequence[models.Store]) -> FileFilter | None:
    """Return the files whose metadata pass a filter such as ``lang = "zh"``; None for no filter.

    Raises InvalidInputError for one that cannot be read.
    """
    if not text.strip():
        return None
    test = parse_metadata_filter(text)
    files = models.File.objects.filter(store__in=stores, n_chunks__gt=0)
    if (condition := metadata_condition(test)) is not None:
        files = files.filter(condition)
    rows = files.values_list("pk", "metadata", "n_chunks").iterator()
    kept = {pk: n for pk, metadata, n in rows if test(metadata)}
    return FileFilter(list(kept), sum(kept.values()))

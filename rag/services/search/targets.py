"""Search targets: the stores a scope may read, their embedding spaces, and file filters.

Content types of what a query names and a store's override space are resolved here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.core.exceptions import EmptyResultSet
from django.db.models import Case, Count, Exists, F, OuterRef, Subquery, Sum, Value, When
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce
from django.db.models.lookups import LessThanOrEqual

from rag import models
from rag.core.access import Scope
from rag.core.analysis import CONTENT_TYPES, QueryAnalysis
from rag.core.errors import InvalidInputError, NotFoundError
from rag.core.ports import FileFilter, StoreTarget
from rag.core.types import RetrievalSettings
from rag.providers.postgres.search.index import MAX_EXACT
from rag.providers.postgres.search.metadata import metadata_condition
from rag.providers.postgres.search.statement import fetch_planned
from rag.providers.postgres.vectors.spaces import VALID_INDEXES, index_name, valid_indexes
from rag.stages.ranking.metadata_filter import parse_metadata_filter

DEFAULT_CONTENT_TYPES = {
    "character": ("character", "character_relation"),
    "outline": ("outline",),
    "chapter": ("outline",),
}


def content_types_for_entities(
    *, analysis: QueryAnalysis, stores: Sequence[models.Store], scope: Scope
) -> tuple[str, ...]:
    """Return the content types that the query's entities stand for, as far as files have them.

    For each entity type: what a store's vocabulary names under “content_types:<type>”, else the
    usual mapping (character, outline, chapter), else a content type of the same name. Only files
    that ``scope`` may read count.
    """
    wanted: dict[str, None] = {}
    for kind in dict.fromkeys(entity.type for entity in analysis.entities):
        own = [name for store in stores for name in _mapped(store, kind)]
        wanted |= dict.fromkeys(own or DEFAULT_CONTENT_TYPES.get(kind, (kind,)))
    if not wanted or not stores:
        return ()
    files = models.File.objects.readable(scope).filter(
        store_id__in=[store.pk for store in stores], content_type__in=list(wanted)
    )
    there = set(files.order_by().values_list("content_type", flat=True).distinct())
    return tuple(name for name in wanted if name in there)


def _mapped(store: models.Store, kind: str) -> list[str]:
    vocabulary = store.vocabulary if isinstance(store.vocabulary, dict) else {}
    names = vocabulary.get(f"{CONTENT_TYPES}{kind}")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


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


def apply_space_override(target: StoreTarget) -> StoreTarget:
    """Return a search's target, moved where ``override_space`` says so."""
    place = (_SPACES.get() or {}).get(target.store_id)
    if place is None or place["space_id"] == target.space_id:
        return target
    return replace(target, **place, has_partial=False, share=1.0)


# More files are not named to the index, which looks each one up then.
MAX_NAMED = 2000


def check_searchable(*, stores: Sequence[models.Store]) -> None:
    """Raise InvalidInputError for no store, and for one at Gemini, which tells no ranks."""
    if not stores:
        raise InvalidInputError("No store was chosen.", hint="Name at least one.")
    for store in stores:
        store.require_local()


def resolve_targets(*, stores: Sequence[models.Store], scope: Scope) -> list[StoreTarget]:
    """Return the readable ones of ``stores``, resolved for ``scope``."""
    try:
        statement = _statement(tuple(store.pk for store in stores), scope)
    except EmptyResultSet:
        # A scope that is limited to no store at all.
        return []
    rows = fetch_planned(*statement)
    return [
        apply_space_override(
            StoreTarget(
                store_id=pk,
                space_id=space_id,
                dim=dim,
                n_chunks=n_chunks,
                sees_restricted=is_editable,
                share=n_chunks / int(total) if total else 1.0,
                has_hnsw=index_name(space_id) in ready,
                has_partial=index_name(space_id, pk) in ready,
                model=model,
            )
        )
        for pk, space_id, dim, n_chunks, is_editable, total, model, ready in rows
    ]


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
        .values_list("pk", "space_id", "dim", "n_chunks", "is_editable", "total", "model", "ready")
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

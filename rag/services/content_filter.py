"""Which kinds of files a query means. In: its entities and stores. Out: content types."""

from __future__ import annotations

from collections.abc import Sequence

from rag import models
from rag.core.access import Scope
from rag.core.analysis import CONTENT_TYPES, QueryAnalysis

USUAL = {
    "character": ("character", "character_relation"), "outline": ("outline",),
    "chapter": ("outline",),
}  # fmt: skip


def content_types_of(
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
        wanted |= dict.fromkeys(own or USUAL.get(kind, (kind,)))
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

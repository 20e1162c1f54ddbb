"""Access filters on stores: those a scope may search, and those whose vocabulary it may use."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rag import models
from rag.core.access import Scope


def readable_stores(
    *, scope: Scope, ids: Collection[int] | None = None, limit: int = 50
) -> list[models.Store]:
    """Return the first ``limit`` searchable stores that ``scope`` may read, of ``ids`` or all."""
    found = models.Store.objects.readable(scope).select_related("space")
    found = found.filter(backend=models.Store.Backend.LOCAL)
    if ids is not None:
        found = found.filter(pk__in=ids)
    return list(found.order_by("name")[:limit])


def stores_with_vocabulary(*, stores: Sequence[models.Store], scope: Scope) -> list[models.Store]:
    """Return ``stores`` without those that have a vocabulary and may not be read.

    What a store calls its things is no business of others; one without words gives nothing away,
    so mostly nothing is asked.
    """
    ids = [store.pk for store in stores if store.vocabulary]
    readable = models.Store.objects.readable(scope).filter(pk__in=ids)
    known = set(readable.values_list("pk", flat=True)) if ids else set()
    return [store for store in stores if not store.vocabulary or store.pk in known]

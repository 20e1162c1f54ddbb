"""Stores that somebody may search. In: who asks. Out: rows, in the order of their names."""

from __future__ import annotations

from collections.abc import Collection

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

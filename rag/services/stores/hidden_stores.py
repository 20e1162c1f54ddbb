"""Hidden stores: where one person may read files that others may not."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.db.models import Q

from rag import models
from rag.core.access import Scope


def stores_hidden_from(
    *,
    scope: Scope,
    others: Sequence[Scope],
    ids: Collection[int] | None = None,
    chunk_ids: Collection[int] = (),
) -> list[models.Store]:
    """Return the stores in which ``scope`` may read a file that some of ``others`` may not.

    Looked at are the stores of ``ids``, or all, and those of ``chunk_ids``.
    """
    files = models.File.objects.readable(scope)
    if ids is not None:
        shown = models.Chunk.objects.filter(pk__in=list(chunk_ids))
        files = files.filter(Q(store__in=list(ids)) | Q(store__in=shown.values("store")))
    hidden = Q(pk__in=[])
    for other in others:
        hidden |= ~Q(pk__in=models.File.objects.readable(other).values("pk"))
    found = models.Store.objects.filter(pk__in=files.filter(hidden).values("store"))
    return list(found.order_by("name"))

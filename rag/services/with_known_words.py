"""Stores whose own words may help with a question. In: stores and who asks. Out: those of them."""

from __future__ import annotations

from collections.abc import Sequence

from rag import models
from rag.core.access import Scope


def with_known_words(*, stores: Sequence[models.Store], scope: Scope) -> list[models.Store]:
    """Return ``stores`` without those that have a vocabulary and may not be read.

    What a store calls its things is no business of others; one without words gives nothing away,
    so mostly nothing is asked.
    """
    ids = [store.pk for store in stores if store.vocabulary]
    readable = models.Store.objects.readable(scope).filter(pk__in=ids)
    known = set(readable.values_list("pk", flat=True)) if ids else set()
    return [store for store in stores if not store.vocabulary or store.pk in known]

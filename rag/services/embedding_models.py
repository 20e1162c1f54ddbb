"""Embedding models that somebody may use. In: who asks. Out: ``provider:model`` names."""

from __future__ import annotations

from rag import models
from rag.conf import conf
from rag.core.access import Scope


def embedding_models(*, scope: Scope) -> list[str]:
    """Return the configured model first, then those of the stores that ``scope`` may read."""
    stores = models.Store.objects.readable(scope).exclude(space=None)
    used = stores.order_by().values_list("space__model", flat=True).distinct()
    return list(dict.fromkeys([conf().embedding_model, *sorted(used)]))

"""The space that a store would move to. In: a store and a model. Out: a space with a partition."""

from __future__ import annotations

from django.db import transaction

from rag import models
from rag.core.ports import Embedder
from rag.providers.postgres.vectors.spaces import create_partition
from rag.services.wiring import registry as wiring


def target_embedder(*, store: models.Store, model: str = "") -> Embedder:
    """Return the embedder of a model, as it is now; empty takes the store's own model's."""
    assert store.space is not None, "local stores have one"
    return wiring.embedder(model or store.space.model)


def move_target(*, store: models.Store, model: str = "") -> models.EmbeddingSpace | None:
    """Return the space of ``model``, made when it is new; None when the store stands on it.

    It has no HNSW index yet: that is built when the vectors are there.
    """
    embedder = target_embedder(store=store, model=model)
    with transaction.atomic():
        space, _ = models.EmbeddingSpace.objects.get_or_create(
            model=embedder.id,
            dim=embedder.dim,
            version=embedder.version,
            defaults={"state": models.EmbeddingSpace.State.BUILDING},
        )
        if space.pk == store.space_id:
            return None
        create_partition(space.pk, space.dim)
    return space

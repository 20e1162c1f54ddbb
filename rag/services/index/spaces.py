"""Embedding spaces: get or create one with its partition, and build the HNSW indexes it lacks."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q, QuerySet, Sum

from rag import models
from rag.conf import conf
from rag.core.ports import Embedder
from rag.providers.postgres.search.index import MIN_SHARE
from rag.providers.postgres.vectors.spaces import (
    build_hnsw,
    create_partition,
    index_name,
    valid_indexes,
)
from rag.providers.procrastinate_queue import defer
from rag.services.wiring import registry as wiring
from rag.services.wiring.registry import is_milvus


def stores_in_space(*, space_id: int) -> QuerySet[models.Store]:
    """Return the stores with vectors in a space: those that stand on it or move to or from it."""
    moves = models.ReindexRun.objects.moves()
    moving = moves.filter(Q(source=space_id) | Q(target=space_id))
    return models.Store.objects.filter(Q(space=space_id) | Q(pk__in=moving.values("store")))


def pending_indexes(*, space_id: int) -> list[int | None]:
    """Return the HNSW indexes that a space lacks: None for the shared one, else a store's id.

    None lacks where Milvus finds the nearest vectors.
    """
    if is_milvus():
        # It finds what is near; a graph here too costs memory, and each write a millisecond.
        return []
    held = stores_in_space(space_id=space_id)
    stores = held.filter(n_chunks__gt=conf().hnsw_min_chunks)
    total = held.aggregate(n=Sum("n_chunks"))["n"] or 0
    ready = valid_indexes()
    due: list[int | None] = []
    if total > conf().hnsw_min_chunks and index_name(space_id) not in ready:
        due.append(None)
    for store_id, n_chunks in stores.values_list("pk", "n_chunks"):
        if n_chunks < MIN_SHARE * total and index_name(space_id, store_id) not in ready:
            due.append(store_id)
    return due


def build_pending_indexes(*, space_id: int, concurrently: bool = True) -> int:
    """Build what ``pending_indexes`` names, one after the other; return how many."""
    space = models.EmbeddingSpace.objects.get(pk=space_id)
    due = pending_indexes(space_id=space_id)
    for store_id in due:
        build_hnsw(space.pk, space.dim, store_id=store_id, concurrently=concurrently)
    return len(due)


def queue_index_builds(*, store_id: int) -> None:
    """Queue a build when the store's space lacks an index; a store that is gone needs none."""
    space_id = models.Store.objects.filter(pk=store_id).values_list("space_id", flat=True).first()
    if space_id is not None and pending_indexes(space_id=space_id):
        defer("rag.build_indexes", lock=f"space:{space_id}", space_id=space_id)


def target_embedder(*, store: models.Store, model: str = "") -> Embedder:
    """Return the embedder of a model, as it is now; empty takes the store's own model's."""
    assert store.space is not None, "local stores have one"
    return wiring.embedder(model or store.space.model)


def ensure_target_space(*, store: models.Store, model: str = "") -> models.EmbeddingSpace | None:
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


def ensure_space(*, embedding_model: str = "") -> models.EmbeddingSpace:
    """Return the space of a model with its partition, made when it is new."""
    embedder = wiring.embedder(embedding_model)
    with transaction.atomic():
        space, _ = models.EmbeddingSpace.objects.get_or_create(
            model=embedder.id, dim=embedder.dim, version=embedder.version
        )
        create_partition(space.pk, space.dim)
    return space

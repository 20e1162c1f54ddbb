"""Embedding spaces: partition and HNSW indexes, and the resumable backfill of missing vectors.

While a store moves to another model, every change also reaches its other (shadow) spaces.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Q, QuerySet, Sum

from rag import models
from rag.conf import conf
from rag.core.errors import ConfigurationError, RAGError
from rag.core.ports import Embedder
from rag.providers.postgres.search.index import MIN_SHARE
from rag.providers.postgres.vectors.backfill import (
    EmbeddableChunk,
    chunks_without_vector,
    read_embeddable,
    write_vectors,
)
from rag.providers.postgres.vectors.spaces import (
    build_hnsw,
    create_partition,
    index_name,
    valid_indexes,
)
from rag.providers.procrastinate_queue import defer
from rag.services.wiring import registry as wiring
from rag.services.wiring.registry import is_milvus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


BATCH = 64
logger = logging.getLogger(__name__)


def backfill_space(
    *,
    space_id: int,
    store_id: int,
    file_ids: Sequence[int] | None = None,
    workers: int = 1,
    on_batch: Callable[[int, int], None] = lambda n, last: None,
) -> int:
    """Embed the store's chunks that a space lacks, in order of their ids; return how many.

    What is there already is passed over, so it may die and begin again at any point. ``on_batch``
    hears how many were done and the last id, and may raise to stop.
    """
    missing = chunks_without_vector(space_id, store_id, file_ids)
    return embed_chunks(space_id=space_id, chunk_ids=missing, workers=workers, on_batch=on_batch)


def embed_chunks(
    *,
    space_id: int,
    chunk_ids: Sequence[int],
    workers: int = 1,
    again: bool = False,
    on_batch: Callable[[int, int], None] = lambda n, last: None,
) -> int:
    """Embed these chunks in a space; vectors that are there stay unless ``again``."""
    if not chunk_ids:
        return 0
    embedder = wiring.embedder_of(space_id)
    n_written = 0
    jobs: deque[tuple[list[EmbeddableChunk], int, Future[NDArray[np.float32]]]] = deque()
    with ThreadPoolExecutor(workers, "embed") as pool:
        for ids in _batches(chunk_ids):
            passages = read_embeddable(ids)
            job = pool.submit(embedder.embed_passages, [passage.text for passage in passages])
            jobs.append((passages, ids[-1], job))
            if len(jobs) > workers:
                n_written += _write(space_id, jobs.popleft(), again, on_batch)
        while jobs:
            n_written += _write(space_id, jobs.popleft(), again, on_batch)
    return n_written


def _batches(ids: Sequence[int]) -> Iterator[list[int]]:
    rest = iter(ids)
    while batch := list(islice(rest, BATCH)):
        yield batch


def _write(
    space_id: int,
    done: tuple[list[EmbeddableChunk], int, Future[NDArray[np.float32]]],
    again: bool,
    on_batch: Callable[[int, int], None],
) -> int:
    passages, last, job = done
    vectors = job.result()
    n = write_vectors(space_id, passages, vectors, again=again) if passages else 0
    on_batch(len(passages), last)
    return n


def shadow_spaces(*, store_id: int) -> list[int]:
    """Return the spaces beside the live one that an open move keeps complete."""
    rows = models.ReindexRun.objects.moves().filter(store=store_id)
    for source, target, live in rows.values_list("source", "target", "store__space"):
        return sorted({source, target} - {live, None})
    return []


def backfill_shadow_spaces(*, store_id: int, file_ids: Sequence[int] | None = None) -> None:
    """Give what has just changed its vectors in the other spaces too.

    Where their model fails, the site goes on: the gap is logged, and filled before any swap.
    """
    for space_id in shadow_spaces(store_id=store_id):
        try:
            backfill_space(space_id=space_id, store_id=store_id, file_ids=file_ids)
        except RAGError as error:
            logger.warning("space %s of store %s has a gap: %s", space_id, store_id, error)


def embed_for_shadow_spaces(*, store_id: int, indexed: str) -> dict[int, NDArray[np.float32]]:
    """Return a text's vector in each of the other spaces whose model answers."""
    vectors: dict[int, NDArray[np.float32]] = {}
    for space_id in shadow_spaces(store_id=store_id):
        try:
            vectors[space_id] = wiring.embedder_of(space_id).embed_passages([indexed])[0]
        except RAGError as error:
            logger.warning("space %s of store %s has a gap: %s", space_id, store_id, error)
    return vectors


def current_vectors(
    *, store_id: int, vectors: Mapping[int, NDArray[np.float32]]
) -> dict[int, NDArray[np.float32]]:
    """Return those vectors whose space the store still keeps; for a transaction that holds it."""
    live = models.Store.objects.values_list("space_id", flat=True).get(pk=store_id)
    kept = {live, *shadow_spaces(store_id=store_id)}
    return {space_id: vector for space_id, vector in vectors.items() if space_id in kept}


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
    """Return the embedder of a model, as it is now; empty takes that of the store's space.

    Where that makes other vectors now, its model as it is now is taken too.
    """
    assert store.space is not None, "local stores have one"
    if not model:
        try:
            return wiring.embedder_of(store.space.pk)
        except ConfigurationError:
            pass
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

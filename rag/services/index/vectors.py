"""Backfill of vectors: embed chunks that a space lacks, in batches, resumable.

While a store migrates, every change also reaches its other (shadow) spaces.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING

from rag import models
from rag.core.errors import RAGError
from rag.providers.postgres.vectors.backfill import (
    EmbeddableChunk,
    chunks_without_vector,
    read_embeddable,
    write_vectors,
)
from rag.services.wiring import registry as wiring

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

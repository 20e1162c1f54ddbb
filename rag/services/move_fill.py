"""Chunks get vectors in a space. In: a space and chunks. Out: rows in its partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING

from rag.providers.postgres.backfill import Passage, missing_chunks, read_passages, write_vectors
from rag.services import wiring

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = 64


def fill_space(
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
    missing = missing_chunks(space_id, store_id, file_ids)
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
    jobs: deque[tuple[list[Passage], int, Future[NDArray[np.float32]]]] = deque()
    with ThreadPoolExecutor(workers, "embed") as pool:
        for ids in _batches(chunk_ids):
            passages = read_passages(ids)
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
    space_id: int, done: tuple[list[Passage], int, Future[NDArray[np.float32]]], again: bool,
    on_batch: Callable[[int, int], None],
) -> int:  # fmt: skip
    passages, last, job = done
    vectors = job.result()
    n = write_vectors(space_id, passages, vectors, again=again) if passages else 0
    on_batch(len(passages), last)
    return n

"""Bulk load of chunks whose vectors are at hand, by COPY in one transaction.

A search sees all of it or nothing. Texts are tokenised by processes of their own, and indexes
that were empty are built after the rows.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from typing import Any

import numpy as np
from django.db import connection, transaction
from numpy.typing import NDArray

from rag.core.documents import Chunk
from rag.core.errors import ConflictError, NotFoundError
from rag.providers.postgres.lexical.document_frequencies import DocumentFrequencies, copy_rows
from rag.providers.postgres.lexical.pack_rows import (
    CHUNK_COLUMNS,
    LEX_COLUMNS,
    VECTOR_COLUMNS,
    FileFacts,
    PackedRows,
    PackJob,
    pack_rows,
    pack_vectors,
)
from rag.providers.postgres.lexical.reweigh import freeze_mean
from rag.providers.postgres.vectors.spaces import index_name
from rag.stages.text.terms import index_terms

BATCH = 1000
# Below this many chunks the processes cost more than they save.
FEW = 3000
# How many of those tell the mean length.
SAMPLE = 300
_FILES = """
SELECT f.id, f.revision, f.content_type,
  (SELECT array_agg(group_id ORDER BY group_id) FROM rag_file_restricted_to WHERE file_id = f.id),
  EXISTS (SELECT FROM rag_chunk c WHERE c.file_id = f.id AND c.is_live)
FROM rag_file f WHERE f.store_id = %s AND f.id = ANY(%s) FOR NO KEY UPDATE OF f
"""
# What Postgres takes to build the words' index in one go, in bytes a term and a place of a term.
_TERM_BYTES, _PLACE_BYTES = 110, 5


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """Where chunks go; ``avg_len`` is the mean length in terms to weigh them by.

    0 takes the store's own; an empty store's is measured on the first chunks and frozen.
    """

    store_id: int
    space_id: int
    avg_len: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadRow:
    """A chunk of an existing file; ``indexed`` is its searchable text, ``vector`` has length 1."""

    file_id: int
    chunk: Chunk
    digest: str
    indexed: str
    vector: NDArray[np.float32]


def load_chunks(
    *,
    target: LoadTarget,
    rows: Iterable[LoadRow],
    processes: int | None = None,
    on_progress: Callable[[int], None] = lambda n: None,
) -> int:
    """Write chunks with vectors, words and statistics; return how many.

    Their files must be rows of the target's store without live chunks. ``on_progress`` hears how
    many more are written. A vector index of an empty space is dropped: build it anew afterwards.
    Raises NotFoundError for an unknown file, ConflictError for one that has chunks.
    """
    tally = DocumentFrequencies()
    processes = processes or len(os.sched_getaffinity(0))
    with transaction.atomic(), connection.cursor() as cursor:
        target, measured, rows = _with_mean(cursor, target, iter(rows))
        with _indexes_last(cursor, target, tally):
            jobs = _jobs(cursor, target, rows)
            with closing(_pack(jobs, processes)) as packs:
                for batch, job, packed in packs:
                    _write(cursor, target, batch, job, packed)
                    tally.add(packed)
                    on_progress(len(batch))
        tally.write(cursor, target.store_id)
        if measured:
            freeze_mean(target.store_id, target.avg_len)
    return tally.n_chunks


def _with_mean(
    cursor: Any, target: LoadTarget, rows: Iterator[LoadRow]
) -> tuple[LoadTarget, bool, Iterator[LoadRow]]:
    """Return the target with its mean, whether that was measured, and the rows as they were."""
    if target.avg_len:
        return target, False, rows
    query = "SELECT n_chunks, avg_len_frozen FROM rag_store WHERE id = %s"
    cursor.execute(query, [target.store_id])
    n_chunks, frozen = cursor.fetchone() or (0, 0.0)
    head = [] if n_chunks else list(islice(rows, FEW))
    sample = head[:: max(1, len(head) // SAMPLE)]
    total = sum(sum(index_terms(row.indexed).values()) for row in sample)
    mean = total / len(sample) if total else float(frozen)
    return replace(target, avg_len=mean), total > 0, chain(head, rows)


Job = tuple[list[LoadRow], PackJob]


def _jobs(cursor: Any, target: LoadTarget, rows: Iterator[LoadRow]) -> Iterator[Job]:
    files: dict[int, FileFacts] = {}
    while batch := list(islice(rows, BATCH)):
        new = {row.file_id for row in batch} - files.keys()
        files |= _files(cursor, target.store_id, new)
        cursor.execute(
            "SELECT nextval(pg_get_serial_sequence('rag_chunk', 'id')) FROM generate_series(1, %s)",
            [len(batch)],
        )
        ids = [row[0] for row in cursor.fetchall()]
        facts = [(files[row.file_id], row.chunk, row.digest, row.indexed) for row in batch]
        yield batch, PackJob(target.store_id, target.avg_len, ids, facts)


def _files(cursor: Any, store_id: int, ids: set[int]) -> dict[int, FileFacts]:
    if not ids:
        return {}
    cursor.execute(_FILES, [store_id, sorted(ids)])
    found: dict[int, FileFacts] = {}
    for file_id, revision, content_type, groups, has_chunks in cursor.fetchall():
        if has_chunks:
            raise ConflictError("File {id} has chunks already.", id=file_id)
        found[file_id] = FileFacts(file_id, revision, content_type, groups and tuple(groups))
    for file_id in sorted(ids - found.keys()):
        raise NotFoundError("File {id} is not in store {store}.", id=file_id, store=store_id)
    return found


def _pack(
    jobs: Iterator[Job], processes: int
) -> Generator[tuple[list[LoadRow], PackJob, PackedRows]]:
    head = list(islice(jobs, FEW // BATCH))
    jobs = chain(head, jobs)
    if processes < 2 or len(head) < FEW // BATCH:
        for batch, job in jobs:
            yield batch, job, pack_rows(job)
        return
    # A forked process would inherit connections and the locks of the models' threads.
    context = multiprocessing.get_context("spawn")
    waiting: deque[tuple[list[LoadRow], PackJob, Future[PackedRows]]] = deque()
    with ProcessPoolExecutor(processes, context) as pool:
        for batch, job in jobs:
            waiting.append((batch, job, pool.submit(pack_rows, job)))
            if len(waiting) > 2 * processes:
                batch, job, future = waiting.popleft()
                yield batch, job, future.result()
        for batch, job, future in waiting:
            yield batch, job, future.result()


def _write(
    cursor: Any, target: LoadTarget, batch: Sequence[LoadRow], job: PackJob, packed: PackedRows
) -> None:
    copy_rows(cursor, "rag_chunk", CHUNK_COLUMNS, packed.chunk_rows)
    parts = []
    head = (target.space_id, target.store_id)
    for _, group in groupby(range(len(batch)), key=lambda i: batch[i].file_id):
        places = list(group)
        at = slice(places[0], places[-1] + 1)
        vectors = np.stack([row.vector for row in batch[at]])
        file = job.rows[places[0]][0]
        parts.append(pack_vectors(head, file, job.ids[at], packed.are_han[at], vectors))
    partition = f"rag_chunk_vec_s{int(target.space_id)}"
    copy_rows(cursor, partition, VECTOR_COLUMNS, b"".join(parts))
    copy_rows(cursor, "rag_chunk_lex", LEX_COLUMNS, packed.lex_rows)


@contextmanager
def _indexes_last(cursor: Any, target: LoadTarget, tally: DocumentFrequencies) -> Iterator[None]:
    """Take indexes of empty tables away; build the words' one again at the end."""
    vectors = f"rag_chunk_vec_s{int(target.space_id)}"
    cursor.execute(f"SELECT EXISTS (SELECT FROM {vectors}), EXISTS (SELECT FROM rag_chunk_lex)")
    has_vectors, has_words = cursor.fetchone()
    if not has_vectors:
        cursor.execute(f"DROP INDEX IF EXISTS {index_name(target.space_id)}")
    if has_words:
        yield
        cursor.execute("SELECT gin_clean_pending_list('rag_chunk_lex_terms')")
        return
    cursor.execute("SELECT pg_get_indexdef('rag_chunk_lex_terms'::regclass)")
    definition = cursor.fetchone()[0]
    cursor.execute("DROP INDEX rag_chunk_lex_terms")
    yield
    # Built in one go, sorted keys split every page of the tree in half and leave it so. With room
    # for 63 % of the whole, a second go fills the halves: a third smaller, and no slower.
    n_terms, n_places = tally.count()
    room_kb = int(0.63 * (_TERM_BYTES * n_terms + _PLACE_BYTES * n_places)) // 1024
    cursor.execute(f"SET LOCAL maintenance_work_mem = {min(max(room_kb, 4096), 2**20)}")
    cursor.execute("SET LOCAL max_parallel_maintenance_workers = 0")
    cursor.execute(definition)

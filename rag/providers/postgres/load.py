"""The way in for many chunks whose vectors are at hand. In: rows. Out: a searchable store.

Everything happens in one transaction: a search sees all of it or nothing. Texts are cut into
terms by processes of their own, and indexes that were empty are built after the rows.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from django.db import connection, transaction

from rag.core.documents import Chunk
from rag.core.errors import ConflictError, NotFoundError
from rag.providers.postgres import stats
from rag.providers.postgres.load_rows import (
    CHUNK_COLUMNS, LEX_COLUMNS, PACK_COLUMNS, FileFacts, PackedRows, PackJob, pack_rows,
    pack_statistics, pack_vectors,
)  # fmt: skip
from rag.providers.postgres.spaces import index_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

BATCH = 1000
# Below this many chunks the processes cost more than they save.
FEW = 3000
_MERGE_AT = 4_000_000
_VECTOR_COLUMNS = (
    "space_id, store_id, chunk_id, file_id, enabled, is_han, content_type, restricted, embedding"
)
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_FILES = """
SELECT f.id, f.revision, f.content_type,
  (SELECT array_agg(group_id ORDER BY group_id) FROM rag_file_restricted_to WHERE file_id = f.id),
  EXISTS (SELECT FROM rag_chunk c WHERE c.file_id = f.id AND c.is_live)
FROM rag_file f WHERE f.store_id = %s AND f.id = ANY(%s)
"""
_IS_COUNTED = """
SELECT EXISTS (SELECT FROM rag_term_pack WHERE store_id = %s)
  OR EXISTS (SELECT FROM rag_term_stat WHERE store_id = %s)
"""


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """Where chunks go; ``avg_len`` is the store's frozen mean length in terms."""

    store_id: int
    space_id: int
    avg_len: float


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
    tally = _Tally()
    with transaction.atomic(), connection.cursor() as cursor, _indexes_last(cursor, target):
        jobs = _jobs(cursor, target, iter(rows))
        with closing(_pack(jobs, processes or len(os.sched_getaffinity(0)))) as packs:
            for batch, job, packed in packs:
                _copy(cursor, "rag_chunk", CHUNK_COLUMNS, packed.chunk_rows)
                vectors = _vector_rows(target, batch, job, packed)
                _copy(cursor, f"rag_chunk_vec_s{int(target.space_id)}", _VECTOR_COLUMNS, vectors)
                _copy(cursor, "rag_chunk_lex", LEX_COLUMNS, packed.lex_rows)
                tally.add(len(batch), packed)
                on_progress(len(batch))
        tally.write(cursor, target.store_id)
    return tally.n_chunks


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


def _pack(jobs: Iterator[Job], processes: int) -> Iterator[tuple[list[LoadRow], PackJob, PackedRows]]:
    head = list(islice(jobs, FEW // BATCH))
    jobs = chain(head, jobs)
    if processes < 2 or len(head) < FEW // BATCH:
        for batch, job in jobs:
            yield batch, job, pack_rows(job)
        return
    # A forked process would inherit connections and the threads' locks of the models.
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


def _vector_rows(
    target: LoadTarget, batch: Sequence[LoadRow], job: PackJob, packed: PackedRows
) -> bytes:
    parts = []
    places = range(len(batch))
    for _, group in groupby(places, key=lambda i: batch[i].file_id):
        at = slice((first := next(group)), first + 1 + sum(1 for _ in group))
        vectors = np.stack([row.vector for row in batch[at]])
        head = (target.space_id, target.store_id)
        file = job.rows[first][0]
        parts.append(pack_vectors(head, file, job.ids[at], packed.are_han[at], vectors))
    return b"".join(parts)


def _copy(cursor: Any, table: str, columns: str, rows: bytes) -> None:
    with cursor.copy(f"COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(_HEADER)
        copy.write(rows)
        copy.write(_TRAILER)


@contextmanager
def _indexes_last(cursor: Any, target: LoadTarget) -> Iterator[None]:
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
    # In one pass keys come sorted and leave every page of the tree half empty; with this little
    # memory there are several, which fill them: a third smaller and no slower.
    cursor.execute("SET LOCAL maintenance_work_mem = '32MB'")
    cursor.execute(definition)


class _Tally:
    """Counts in how many chunks each term occurs, in little memory."""

    def __init__(self) -> None:
        self.n_chunks = 0
        self._sum_len = 0
        self._parts: list[tuple[NDArray[np.int32], NDArray[np.int64]]] = []
        self._n_waiting = 0

    def add(self, n_chunks: int, packed: PackedRows) -> None:
        self.n_chunks += n_chunks
        self._sum_len += packed.sum_len
        self._parts.append((packed.keys, packed.dfs))
        self._n_waiting += len(packed.keys)
        if self._n_waiting > _MERGE_AT:
            self._parts = [self._merged()]
            self._n_waiting = 0

    def _merged(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        keys, places = np.unique(np.concatenate([k for k, _ in self._parts]), return_inverse=True)
        dfs = np.concatenate([n for _, n in self._parts])
        return keys, np.bincount(places, dfs, len(keys)).astype(np.int64)

    def write(self, cursor: Any, store_id: int) -> None:
        if not self.n_chunks:
            return
        keys, dfs = self._merged()
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('rag_term_stat'))")
        cursor.execute(_IS_COUNTED, [store_id, store_id])
        is_counted = cursor.fetchone()[0]
        added = (keys.tolist(), dfs.tolist()) if is_counted else ([], [])
        cursor.execute(
            "INSERT INTO rag_term_delta (store_id, keys, dn, chunks, len) VALUES (%s, %s, %s, %s, %s)",
            [store_id, *added, self.n_chunks, self._sum_len],
        )
        stats.roll_up([store_id])
        if is_counted:
            stats.pack(store_id)
        else:
            rows = pack_statistics(store_id, keys, dfs, stats.TERMS_A_ROW)
            _copy(cursor, "rag_term_pack", PACK_COLUMNS, rows)

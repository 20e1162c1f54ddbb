"""Worker processes of bulk load and lexical backfill: rows in COPY's binary format, and counts.

It knows neither Django nor a connection.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag.core.documents import Chunk
from rag.providers.postgres.db.literals import (
    array_field,
    json_field,
    page_field,
    sparse_field,
    text_field,
)
from rag.providers.postgres.lexical.bm25 import pack_text

CHUNK_COLUMNS = (
    "id, file_id, store_id, ordinal, char_start, char_end, own_start, token_count, revision,"
    " file_revision, enabled, is_live, page_first, page_last, heading_path, block_kinds,"
    " content_type, text, context, sha256"
)
LEX_COLUMNS = "chunk_id, file_id, store_id, len, enabled, is_han, content_type, restricted, w"
VECTOR_COLUMNS = (
    "space_id, store_id, chunk_id, file_id, enabled, is_han, content_type, restricted, embedding"
)
_CHUNK_HEAD = struct.Struct(">h" + "iq" * 3 + "ii" * 7 + "i?" * 2)
_LEX_HEAD = struct.Struct(">h" + "iq" * 2 + "ii" * 2 + "i?" * 2)


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What the rows of a chunk copy from its file; ``groups`` None means every reader."""

    file_id: int
    revision: int
    content_type: str
    groups: tuple[int, ...] | None

    @property
    def index_fields(self) -> bytes:
        """Return content type and restriction as both index tables hold them."""
        return text_field(self.content_type) + array_field(self.groups)


@dataclass(frozen=True, slots=True)
class PackJob:
    """Chunks to pack, row by row: each with its file, digest and searchable text."""

    store_id: int
    avg_len: float
    ids: Sequence[int]
    rows: Sequence[tuple[FileFacts, Chunk, str, str]]


@dataclass(frozen=True, slots=True)
class PackedRows:
    """COPY bytes for both tables, and what the texts told.

    ``keys`` are the distinct term keys, ``dfs`` in how many of the chunks each occurs.
    """

    chunk_rows: bytes
    lex_rows: bytes
    are_han: list[bool]
    keys: NDArray[np.int32]
    dfs: NDArray[np.int64]
    sum_len: int


def pack_rows(job: PackJob) -> PackedRows:
    """Return the rows of ``job`` in their order."""
    chunk_rows: list[bytes] = []
    lex_rows: list[bytes] = []
    are_han: list[bool] = []
    all_keys: list[NDArray[np.int32]] = []
    sum_len = 0
    for chunk_id, (file, chunk, digest, indexed) in zip(job.ids, job.rows, strict=True):
        words = pack_text(job.store_id, indexed, job.avg_len)
        chunk_rows.append(_chunk_row(chunk_id, job.store_id, file, chunk, digest))
        ids = (8, chunk_id, 8, file.file_id, 4, job.store_id)
        head = _LEX_HEAD.pack(9, *ids, 4, words.length, 1, True, 1, words.is_han)
        lex_rows += (head, file.index_fields, sparse_field(words.keys, words.weights))
        are_han.append(words.is_han)
        all_keys.append(words.keys)
        sum_len += words.length
    keys, dfs = np.unique(np.concatenate(all_keys), return_counts=True)
    return PackedRows(b"".join(chunk_rows), b"".join(lex_rows), are_han, keys, dfs, sum_len)


def pack_vectors(
    head: tuple[int, int],
    file: FileFacts,
    ids: Sequence[int],
    are_han: Sequence[bool],
    vectors: NDArray[np.float32],
) -> bytes:
    """Return rows of rag_chunk_vec for chunks of one file; ``head`` is space and store."""
    n, dim = vectors.shape
    fields = file.index_fields
    rows = np.zeros(n, dtype=_vector_row(len(fields), dim))
    rows["n"], rows["enabled"], rows["han"] = 9, 1, are_han
    rows["s0"] = rows["s1"] = 4
    rows["s2"] = rows["s3"] = 8
    rows["s4"] = rows["s5"] = 1
    rows["space"], rows["store"] = head
    rows["chunk"], rows["file"] = ids, file.file_id
    rows["fields"] = np.void(fields)
    rows["s6"], rows["dim"], rows["vector"] = 4 + 2 * dim, dim, vectors
    return rows.tobytes()


@lru_cache(maxsize=64)
def _vector_row(n_index_fields: int, dim: int) -> np.dtype[np.void]:
    names = "n s0 space s1 store s2 chunk s3 file s4 enabled s5 han fields s6 dim unused vector"
    kinds = f">i2 >i4 >i4 >i4 >i4 >i4 >i8 >i4 >i8 >i4 i1 >i4 i1 V{n_index_fields} >i4 >i2 >i2"
    return np.dtype({"names": names.split(), "formats": [*kinds.split(), f"({dim},)>f2"]})


def _chunk_row(chunk_id: int, store_id: int, file: FileFacts, chunk: Chunk, digest: str) -> bytes:
    # Each behind its size, as a field of COPY begins.
    ids = (8, chunk_id, 8, file.file_id, 8, store_id, 4, chunk.ordinal)
    span = (4, chunk.char_start, 4, chunk.char_end, 4, chunk.own_start, 4, chunk.token_count)
    head = _CHUNK_HEAD.pack(20, *ids, *span, 4, 1, 4, file.revision, 1, True, 1, True)
    tail = (
        json_field(chunk.heading_path),
        json_field(chunk.block_kinds),
        text_field(file.content_type),
        text_field(chunk.text),
        text_field(chunk.context),
        text_field(digest),
    )
    return head + page_field(chunk.page_first) + page_field(chunk.page_last) + b"".join(tail)


TERM_COLUMNS = "chunk_id, revision, seen, len, is_han, w"
_HEAD = struct.Struct(">h" + "iq" + "ii")
_TAIL = struct.Struct(">" + "ii" + "i?")
_NULL = b"\xff\xff\xff\xff"
# Rows were weighed by a mean near the present one; what is nearer than this is the same.
_NEAR = 0.005
# Of a field of COPY, before its bytes.
_LENGTH = 4
_NONE = np.empty(0, np.int32)


class TermRow(NamedTuple):
    """A chunk's text with the row of words it has; ``raw`` None means that it has none.

    ``seen`` is that row's version, as the wire has it.
    """

    chunk_id: int
    revision: int
    indexed: str
    seen: bytes | None
    length: int | None
    is_han: bool | None
    raw: bytes | None


@dataclass(frozen=True, slots=True)
class TermJob:
    """Chunks of one store to compare, and the mean length to weigh them by."""

    store_id: int
    avg_len: float
    rows: Sequence[TermRow]


@dataclass(frozen=True, slots=True)
class TermPack:
    """COPY bytes of the rows that differ, with what they change in the statistics together.

    ``keys`` are those that more or fewer chunks have, ``dn`` how many more.
    """

    rows: bytes
    ids: list[int]
    length: int
    keys: NDArray[np.int32]
    dn: NDArray[np.int64]


def pack_terms(job: TermJob) -> TermPack:
    """Return the rows whose words, length or weights are not what the text says now."""
    parts: list[bytes] = []
    ids: list[int] = []
    won, lost = [_NONE], [_NONE]
    length = 0
    for row in job.rows:
        words = pack_text(job.store_id, row.indexed, job.avg_len)
        field = sparse_field(words.keys, words.weights)
        is_same = (row.length, row.is_han) == (words.length, words.is_han)
        # Most often the very bytes are the same.
        if is_same and row.raw == field[_LENGTH:]:
            continue
        keys, weights = _read(row.raw)
        has_keys = np.array_equal(words.keys, keys)
        if is_same and has_keys and (np.abs(words.weights - weights) <= _NEAR * weights).all():
            continue
        seen = _NULL if row.seen is None else len(row.seen).to_bytes(4, "big") + row.seen
        head = _HEAD.pack(6, 8, row.chunk_id, 4, row.revision)
        parts += (head, seen, _TAIL.pack(4, words.length, 1, words.is_han), field)
        ids.append(row.chunk_id)
        length += words.length - (row.length or 0)
        if not has_keys:
            won.append(words.keys)
            lost.append(keys)
    return TermPack(b"".join(parts), ids, length, *_changes(won, lost))


def _changes(
    won: Sequence[NDArray[np.int32]], lost: Sequence[NDArray[np.int32]]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the keys that do not occur as often on both sides, and how much more often in one."""
    keys = np.concatenate([*won, *lost])
    signs = np.ones(len(keys))
    signs[sum(map(len, won)) :] = -1
    unique, places = np.unique(keys, return_inverse=True)
    sums = np.bincount(places, signs, len(unique)).astype(np.int64)
    return unique[sums != 0], sums[sums != 0]


def _read(raw: bytes | None) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return keys and weights of a sparsevec on the wire, which counts from 0."""
    if raw is None:
        return _NONE, np.empty(0, np.float32)
    n = int.from_bytes(raw[4:8], "big")
    keys = np.frombuffer(raw, ">i4", n, 12).astype(np.int32) + 1
    return keys, np.frombuffer(raw, ">f4", n, 12 + 4 * n).astype(np.float32)

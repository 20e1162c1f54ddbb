"""Worker processes' part of the lexical backfill: packs the rows whose text says otherwise.

It knows neither Django nor a connection.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag.providers.postgres.db.literals import sparse_field
from rag.providers.postgres.lexical.bm25 import pack_text

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

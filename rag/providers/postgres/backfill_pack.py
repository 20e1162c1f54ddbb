"""Texts to word rows that differ from those that are there. In: texts, old rows. Out: new rows.

Runs in processes of its own, so it knows neither Django nor a connection.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rag.providers.postgres.copy_fields import sparse_field
from rag.providers.postgres.keys import term_weights
from rag.stages.terms import index_terms, is_han

if TYPE_CHECKING:
    from numpy.typing import NDArray

TERM_COLUMNS = "chunk_id, revision, len, is_han, w"
_HEAD = struct.Struct(">h" + "iq" + "ii" * 2 + "i?")
# Rows were weighed by a mean near the present one; what is nearer than this is the same.
_NEAR = 0.005


@dataclass(frozen=True, slots=True)
class TermRow:
    """A chunk's text with the row of words it has; ``raw`` None means that it has none."""

    chunk_id: int
    revision: int
    indexed: str
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
    """COPY bytes of the rows that differ, with what each changes in the statistics."""

    rows: bytes
    ids: list[int]
    lengths: list[int]
    lost: list[NDArray[np.int32]]
    won: list[NDArray[np.int32]]


def pack_terms(job: TermJob) -> TermPack:
    """Return the rows whose words, length or weights are not what the text says now."""
    pack = TermPack(b"", [], [], [], [])
    parts: list[bytes] = []
    for row in job.rows:
        counts = index_terms(row.indexed)
        length = counts.total()
        made = term_weights(job.store_id, counts, job.avg_len)
        keys = np.fromiter(made, np.int32, len(made))
        order = np.argsort(keys)
        keys = keys[order]
        values = np.fromiter(made.values(), np.float32, len(made))[order]
        flag = is_han(row.indexed)
        old_keys, old_values = _read(row.raw)
        is_same = (row.length, row.is_han) == (length, flag) and np.array_equal(keys, old_keys)
        if is_same and np.allclose(values, old_values, rtol=_NEAR, atol=0):
            continue
        head = _HEAD.pack(5, 8, row.chunk_id, 4, row.revision, 4, length, 1, flag)
        parts += (head, sparse_field(keys, values))
        pack.ids.append(row.chunk_id)
        pack.lengths.append(length - (row.length or 0))
        pack.lost.append(np.setdiff1d(old_keys, keys, assume_unique=True))
        pack.won.append(np.setdiff1d(keys, old_keys, assume_unique=True))
    return TermPack(b"".join(parts), pack.ids, pack.lengths, pack.lost, pack.won)


def _read(raw: bytes | None) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return keys and weights of a sparsevec on the wire, which counts from 0."""
    if raw is None:
        return np.empty(0, np.int32), np.empty(0, np.float32)
    n = int.from_bytes(raw[4:8], "big")
    keys = np.frombuffer(raw, ">i4", n, 12).astype(np.int32) + 1
    return keys, np.frombuffer(raw, ">f4", n, 12 + 4 * n).astype(np.float32)

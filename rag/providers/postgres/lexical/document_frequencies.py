"""Document frequencies of a bulk load, summed in little memory and written at the end."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from rag.providers.postgres.db.literals import array_field
from rag.providers.postgres.db.locks import lock_stores
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.lexical.pack_rows import PackedRows

Counts = tuple[NDArray[np.int32], NDArray[np.int64]]

DELTA_COLUMNS = "store_id, keys, dn, chunks, len"
_PACK_COLUMNS = "store_id, first_key, keys, dfs"
_MERGE_AT = 4_000_000
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_IS_COUNTED = """
SELECT EXISTS (SELECT FROM rag_term_pack WHERE store_id = %s)
  OR EXISTS (SELECT FROM rag_term_stat WHERE store_id = %s)
"""


def copy_rows(cursor: Any, table: str, columns: str, rows: bytes) -> None:
    """Write rows that are in COPY's binary format, without its header, to ``table``."""
    # Django wraps the errors of execute(), not those of copy().
    with (
        connection.wrap_database_errors,
        cursor.copy(f"COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)") as copy,
    ):
        copy.write(_HEADER)
        copy.write(rows)
        copy.write(_TRAILER)


def delta_row(
    store_id: int, keys: NDArray[np.int32], dn: NDArray[np.int64], totals: tuple[int, int]
) -> bytes:
    """Return a row of rag_term_delta: keys, how many more chunks have each, chunks and length."""
    n_chunks, length = totals
    head, tail = struct.pack(">hii", 5, 4, store_id), struct.pack(">iiiq", 4, n_chunks, 8, length)
    return head + array_field(keys) + array_field(dn) + tail


class DocumentFrequencies:
    """Sums document frequencies in little memory and writes them at the end."""

    def __init__(self) -> None:
        self.n_chunks = 0
        self._sum_len = 0
        self._parts: list[Counts] = []
        self._n_waiting = 0

    def add(self, packed: PackedRows) -> None:
        """Count the chunks of ``packed``."""
        self.n_chunks += len(packed.are_han)
        self._sum_len += packed.sum_len
        self._parts.append((packed.keys, packed.dfs))
        self._n_waiting += len(packed.keys)
        if self._n_waiting > _MERGE_AT:
            self._merged()

    def count(self) -> tuple[int, int]:
        """Return the number of terms and the sum of their document frequencies."""
        keys, dfs = self._merged()
        return len(keys), int(dfs.sum())

    def write(self, cursor: Any, store_id: int) -> None:
        """Add everything to the store's statistics."""
        if not self.n_chunks:
            return
        keys, dfs = self._merged()
        lock_stores([store_id])
        cursor.execute(_IS_COUNTED, [store_id, store_id])
        is_counted = cursor.fetchone()[0]
        added = (keys, dfs) if is_counted else (keys[:0], dfs[:0])
        change = delta_row(store_id, *added, (self.n_chunks, self._sum_len))
        copy_rows(cursor, "rag_term_delta", DELTA_COLUMNS, change)
        stats.roll_up([store_id])
        if is_counted:
            stats.pack_statistics(store_id)
        else:
            rows = _pack_statistics(store_id, keys, dfs, stats.TERMS_A_ROW)
            copy_rows(cursor, "rag_term_pack", _PACK_COLUMNS, rows)

    def _merged(self) -> Counts:
        """Return ascending keys with their sums; what was waiting is merged for good."""
        empty: Counts = (np.empty(0, np.int32), np.empty(0, np.int64))
        parts = self._parts or [empty]
        if len(parts) > 1:
            joined = np.concatenate([keys for keys, _ in parts])
            keys, places = np.unique(joined, return_inverse=True)
            dfs = np.bincount(places, np.concatenate([n for _, n in parts]), len(keys))
            parts = [(keys, dfs.astype(np.int64))]
        self._parts = parts
        self._n_waiting = 0
        return parts[0]


def _pack_statistics(
    store_id: int, keys: NDArray[np.int32], dfs: NDArray[np.int64], per_row: int
) -> bytes:
    rows: list[bytes] = []
    for start in range(0, len(keys), per_row):
        some = slice(start, start + per_row)
        head = struct.pack(">hiiii", 4, 4, store_id, 4, keys[start])
        rows += (head, array_field(keys[some]), array_field(dfs[some]))
    return b"".join(rows)

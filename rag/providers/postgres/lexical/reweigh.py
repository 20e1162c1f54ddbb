"""Reweighing: BM25 weights follow their store's mean length.

A weight tells what it was made from: ``w = tf (k1 + 1) / (tf + norm)``, where the norm depends on
the chunk's length and the mean, and the term frequencies are whole and sum up to the length. So a
row is rewritten without its text, whatever mean it was made with, and as often as one likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import psycopg
from django.db import connection, transaction
from numpy.typing import NDArray

from rag.providers.postgres.db.connections import execute, fetch_row, fetch_rows
from rag.providers.postgres.db.literals import sparse_literal
from rag.providers.postgres.lexical.bm25 import K1, B

BATCH = 500
# How far the frozen mean may be off. Then it goes to the true one in steps of at most STEP: that
# far apart, rewritten chunks and those to come are ranked together without harm.
BAND, STEP = 1.2, 1.25
# A row within this share of the wanted norm is left alone.
_NEAR = 0.002
_DRIFT = f"""
SELECT id, avg_len_frozen, sum_len::float / n_chunks FROM rag_store
WHERE n_chunks > 0 AND sum_len > 0
  AND sum_len::float / n_chunks NOT BETWEEN avg_len_frozen / {BAND} AND avg_len_frozen * {BAND}
"""
_CHUNKS = "SELECT chunk_id FROM rag_chunk_lex WHERE file_id = ANY(%s) ORDER BY chunk_id"
_ROWS = "SELECT chunk_id, len, w FROM rag_chunk_lex WHERE chunk_id = ANY(%s) FOR UPDATE"
_WRITE = """
UPDATE rag_chunk_lex x SET w = n.w FROM unnest(%s::bigint[], %s::sparsevec[]) n(chunk_id, w)
WHERE x.chunk_id = n.chunk_id
"""


def drifted_stores() -> list[int]:
    """Return the stores whose mean length has left the band around the frozen one."""
    return [row[0] for row in fetch_rows(_DRIFT)]


def next_mean(store_id: int, *, at_once: bool = False) -> float | None:
    """Return the mean to freeze next, None within the band.

    It is at most a step from the frozen one, and the true one if that is near or ``at_once``.
    """
    row = fetch_row(f"{_DRIFT} AND id = %s", [store_id])
    if row is None:
        return None
    _, frozen, true = row
    return float(true) if at_once else min(max(true, frozen / STEP), frozen * STEP)


def freeze_mean(store_id: int, avg_len: float) -> None:
    """Let new chunks of the store be weighed by ``avg_len``."""
    execute("UPDATE rag_store SET avg_len_frozen = %s WHERE id = %s", [avg_len, store_id])


def reweigh_files(file_ids: Sequence[int], avg_len: float) -> list[int]:
    """Rewrite the files' chunks by a mean length and return those that somebody else holds.

    Each batch is a transaction of its own, if the caller has none, and waits for nobody.
    """
    passed_over: list[int] = []
    for some in _pieces(file_ids):
        chunk_ids = [row[0] for row in fetch_rows(_CHUNKS, [some])]
        for batch in _pieces(chunk_ids):
            seen = _rewrite(batch, avg_len, f"{_ROWS} SKIP LOCKED")
            passed_over += sorted(set(batch) - seen)
    return passed_over


def reweigh_locked(chunk_ids: Iterable[int], avg_len: float) -> None:
    """Rewrite chunks that were passed over, one by one: who waits holds nothing meanwhile."""
    for chunk_id in chunk_ids:
        _rewrite([chunk_id], avg_len, _ROWS)


def _pieces(ids: Sequence[int]) -> Iterator[list[int]]:
    for start in range(0, len(ids), BATCH):
        yield list(ids[start : start + BATCH])


def _rewrite(chunk_ids: list[int], avg_len: float, query: str) -> set[int]:
    """Return the chunks that were at hand, whether they needed new weights or not."""
    with transaction.atomic():
        # Opens the connection, which is used below as it is, for its binary answers.
        execute("SELECT")
        with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as raw:
            rows: list[Any] = raw.execute(query, [chunk_ids], binary=True).fetchall()
        made = {row[0]: _reweighed(row[2], row[1], avg_len) for row in rows}
        stale = {chunk_id: text for chunk_id, text in made.items() if text}
        if stale:
            execute(_WRITE, [list(stale), list(stale.values())])
    return set(made)


def _reweighed(raw: bytes, length: int, avg_len: float) -> str:
    """Return new weights as pgvector reads them; nothing when the old ones will do."""
    n = int.from_bytes(raw[4:8], "big")
    # The wire counts from 0 where keys count from 1.
    keys = np.frombuffer(raw, ">i4", n, 12) + 1
    weights = np.frombuffer(raw, ">f4", n, 12 + 4 * n).astype(np.float64)
    wanted = K1 * (1 - B + B * length / avg_len)
    if not n or abs((norm := _norm(weights, length)) - wanted) <= _NEAR * wanted:
        return ""
    frequencies = np.maximum(1, np.rint(weights * norm / _rest(weights)))
    made = frequencies * (K1 + 1) / (frequencies + wanted)
    return sparse_literal(dict(zip(keys.tolist(), made.tolist(), strict=True)))


def _norm(weights: NDArray[np.float64], length: int) -> float:
    """Return what the weights were made with.

    The rarest term's weight gives it up to a whole factor, that term's frequency; the length gives
    the factor. The length alone would do but for rounding, where one word fills the chunk.
    """
    if_once = (K1 + 1) / float(weights.min()) - 1
    by_length = length / float((weights / _rest(weights)).sum())
    return if_once * max(1, round(by_length / if_once))


def _rest(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    # A word ten thousand times in a chunk has a weight that is rounded to the limit.
    return np.maximum(K1 + 1 - weights, 1e-7)

"""Term look-up: the first chunks that hold terms, and document frequencies.

The planner takes any word for a rare one and would read all chunks for it. OFFSET keeps it from
turning the question round: it looks into one candidate after the other, until it has enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from rag import models
from rag.providers.postgres.db.connections import fetch_row

_FIRST = """SELECT l.chunk_id FROM rag_chunk_lex l
WHERE {shares} AND EXISTS ({holds} OFFSET 0) LIMIT %s"""
_IN_ORDER = """SELECT l.chunk_id FROM ({candidates} OFFSET 0) l(chunk_id)
WHERE EXISTS ({holds} OFFSET 0) LIMIT %s"""


def find_chunks_by_terms(
    held: QuerySet[models.Chunk], keys: Sequence[list[int]], limit: int, order: str = ""
) -> list[int]:
    """Return up to ``limit`` ids of ``held`` that share a key with each of ``keys``.

    Whichever are found first, or the first by ``order``, which is ``id`` or ``-id``.
    """
    shares = " AND ".join(["rag_terms(l.w) && %s"] * len(keys))
    holds, params = _of_candidate(held)
    if not order:
        return _ids(_FIRST.format(shares=shares, holds=holds), [*keys, *params, limit])
    way = "DESC" if order.startswith("-") else "ASC"
    sorted_ = f"SELECT l.chunk_id FROM rag_chunk_lex l WHERE {shares} ORDER BY 1 {way}"
    return _ids(_IN_ORDER.format(candidates=sorted_, holds=holds), [*keys, *params, limit])


def find_chunks_in_order(
    chunks: QuerySet[models.Chunk], holding: QuerySet[models.Chunk], limit: int
) -> list[int]:
    """Return the first ids of ``chunks``, in their order, that are in ``holding`` too."""
    candidates, before = chunks.values("pk").query.sql_with_params()
    holds, params = _of_candidate(holding)
    statement = _IN_ORDER.format(candidates=candidates, holds=holds)
    return _ids(statement, [*before, *params, limit])


def _of_candidate(rows: QuerySet[models.Chunk]) -> tuple[str, Sequence[Any]]:
    same = rows.filter(pk=RawSQL("l.chunk_id", [])).order_by().values("pk")
    return same.query.sql_with_params()


def _ids(statement: str, params: Sequence[Any]) -> list[int]:
    with transaction.atomic(), connection.cursor() as cursor:
        # A bitmap that does not fit names pages instead of rows, and each row's terms are read.
        # Several processes would bring their rows in any order.
        cursor.execute("SET LOCAL work_mem = '64MB'; SET LOCAL max_parallel_workers_per_gather = 0")
        cursor.execute(statement, params)
        return [int(pk) for (pk,) in cursor.fetchall()]


_DF = """
SELECT coalesce(sum(coalesce(tp.df, 0) + coalesce(tn.df, 0)), 0)
FROM unnest(%s::int[], %s::int[]) k(store_id, key)
LEFT JOIN LATERAL (
  SELECT p.dfs[array_position(p.keys, k.key)] AS df FROM rag_term_pack p
  WHERE p.store_id = k.store_id AND p.first_key <= k.key ORDER BY p.first_key DESC LIMIT 1
) tp ON true
LEFT JOIN rag_term_stat tn ON tn.store_id = k.store_id AND tn.key = k.key
"""


def document_frequency(stores: Sequence[int], keys: Sequence[int]) -> int:
    """Return in how many chunks keys stand, each in the store beside it, as far as rolled up."""
    return int(fetch_row(_DF, [list(stores), list(keys)])[0])

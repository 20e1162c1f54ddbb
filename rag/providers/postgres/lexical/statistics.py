"""Document frequencies: deltas of each change, rolled up, and packed now and then.

A term's df is what the packed rows say, 12 bytes a term, plus what was rolled up since, 72 bytes
a term; searches sum both.
"""

from __future__ import annotations

from math import floor, log

from django.db import connection, transaction

from rag.providers.postgres.db.connections import execute, fetch_rows
from rag.providers.postgres.db.locks import lock_stores

TERMS_A_ROW = 240
# Packing costs about a second per 100,000 chunks, so it waits until a store has grown this much.
_GROWTH = 1.25
_PACK_FROM = 5000
_ROLL_UP = """
WITH d AS (DELETE FROM rag_term_delta WHERE store_id = ANY(%s) RETURNING *),
k AS (INSERT INTO rag_term_stat AS s
  SELECT store_id, u.k, sum(u.n) FROM d, unnest(keys, dn) u(k, n)
  WHERE store_id IN (SELECT id FROM rag_store) GROUP BY 1, 2 HAVING sum(u.n) <> 0 ORDER BY 1, 2
  ON CONFLICT (store_id, key) DO UPDATE SET df = s.df + excluded.df)
UPDATE rag_store SET n_chunks = n_chunks + x.n, sum_len = sum_len + x.l
FROM (SELECT store_id, sum(chunks) AS n, sum(len) AS l FROM d GROUP BY 1) x
WHERE rag_store.id = x.store_id RETURNING id, n_chunks, x.n
"""
_INSERT_PACK = f"""
INSERT INTO rag_term_pack (store_id, first_key, keys, dfs)
SELECT %(store)s, min(key), array_agg(key ORDER BY key), array_agg(df ORDER BY key)
FROM (SELECT key, df, (row_number() OVER (ORDER BY key) - 1) / {TERMS_A_ROW} AS place FROM terms) t
GROUP BY place
"""
_PACK = f"""
WITH packed AS (DELETE FROM rag_term_pack WHERE store_id = %(store)s RETURNING keys, dfs),
since AS (DELETE FROM rag_term_stat WHERE store_id = %(store)s RETURNING key, df),
terms AS (
  SELECT key, sum(df)::int AS df FROM (
    SELECT key, df FROM since
    UNION ALL SELECT u.key, u.df FROM packed, unnest(keys, dfs) u(key, df)) x
  GROUP BY key HAVING sum(df) > 0)
{_INSERT_PACK}"""
_RECOUNT = f"""
WITH terms AS (
  SELECT key, count(*)::int AS df FROM rag_chunk_lex, unnest(rag_terms(w)) key
  WHERE store_id = %(store)s GROUP BY key)
{_INSERT_PACK}"""
_RECOUNT_STORE = """
UPDATE rag_store SET (n_chunks, sum_len) = (SELECT count(*), coalesce(sum(len), 0)
  FROM rag_chunk_lex WHERE store_id = %(store)s) WHERE id = %(store)s
"""


def roll_up(store_ids: list[int]) -> None:
    """Fold the deltas of these stores into their statistics; one process a store at a time."""
    with transaction.atomic(), connection.cursor() as cursor:
        lock_stores(store_ids)
        cursor.execute(_ROLL_UP, [store_ids])
        for store_id, n_chunks, n_added in cursor.fetchall():
            if _has_grown(n_chunks - n_added, n_chunks):
                cursor.execute(_PACK, {"store": store_id})


def _has_grown(before: int, after: int) -> bool:
    if after < max(before, _PACK_FROM):
        return False
    return floor(log(max(before, 1), _GROWTH)) < floor(log(after, _GROWTH))


def pack_statistics(store_id: int) -> None:
    """Pack a store's statistics into little room; ``roll_up`` does it when a store has grown."""
    with transaction.atomic(), connection.cursor() as cursor:
        lock_stores([store_id])
        cursor.execute(_PACK, {"store": store_id})


def recount_statistics(store_id: int) -> None:
    """Count a store's document frequencies anew from its chunks."""
    with transaction.atomic(), connection.cursor() as cursor:
        # Deltas written meanwhile belong to chunks that the count below may already see.
        cursor.execute("LOCK TABLE rag_chunk_lex IN SHARE MODE")
        lock_stores([store_id])
        for table in ("rag_term_delta", "rag_term_stat", "rag_term_pack"):
            cursor.execute(f"DELETE FROM {table} WHERE store_id = %s", [store_id])
        cursor.execute(_RECOUNT, {"store": store_id})
        cursor.execute(_RECOUNT_STORE, {"store": store_id})


def stores_with_deltas() -> list[int]:
    """Return the stores whose last changes are not rolled up yet."""
    return [row[0] for row in fetch_rows("SELECT DISTINCT store_id FROM rag_term_delta ORDER BY 1")]


def merge_pending_terms() -> None:
    """Merge the GIN index's pending list, so that no later writer or reader pays for it."""
    execute("SELECT gin_clean_pending_list('rag_chunk_lex_terms')")

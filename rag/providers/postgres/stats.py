"""Document frequencies: deltas are appended with each change and rolled up here."""

from __future__ import annotations

from django.db import connection, transaction

_ROLL_UP = """
WITH d AS (DELETE FROM rag_term_delta WHERE store_id = ANY(%s) RETURNING *),
k AS (INSERT INTO rag_term_stat AS s
  SELECT store_id, u.k, sum(u.n) FROM d, unnest(keys, dn) u(k, n) GROUP BY 1, 2 ORDER BY 1, 2
  ON CONFLICT (store_id, key) DO UPDATE SET df = s.df + excluded.df)
UPDATE rag_store SET n_chunks = n_chunks + x.n, sum_len = sum_len + x.l
FROM (SELECT store_id, sum(chunks) AS n, sum(len) AS l FROM d GROUP BY 1) x WHERE rag_store.id = x.store_id
"""
_RECOUNT = """
INSERT INTO rag_term_stat SELECT store_id, key, count(*) FROM rag_chunk_lex, unnest(terms) key
WHERE store_id = %s GROUP BY 1, 2 ORDER BY 1, 2
"""
_RECOUNT_STORE = """
UPDATE rag_store SET (n_chunks, sum_len) =
  (SELECT count(*), coalesce(sum(len), 0) FROM rag_chunk_lex WHERE store_id = %s) WHERE id = %s
"""


def roll_up(store_ids: list[int]) -> None:
    """Fold the deltas of these stores into their statistics; one process at a time."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('rag_term_stat'))")
        cursor.execute(_ROLL_UP, [store_ids])


def recount(store_id: int) -> None:
    """Count a store's document frequencies anew from its chunks."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('rag_term_stat'))")
        # Deltas written meanwhile belong to chunks that the count below may already see.
        cursor.execute("LOCK TABLE rag_chunk_lex IN SHARE MODE")
        cursor.execute("DELETE FROM rag_term_delta WHERE store_id = %s", [store_id])
        cursor.execute("DELETE FROM rag_term_stat WHERE store_id = %s", [store_id])
        cursor.execute(_RECOUNT, [store_id])
        cursor.execute(_RECOUNT_STORE, [store_id, store_id])


def merge_pending_terms() -> None:
    """Merge the GIN index's pending list, so that no later writer or reader pays for it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT gin_clean_pending_list('rag_chunk_lex_terms')")

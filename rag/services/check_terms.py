"""What is counted of terms and chunks, against what there is. Out: findings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from django.db import connection

from rag import models
from rag.providers.postgres import stats
from rag.services.doctor_finding import Finding

# Up to so many chunks all terms of a store are counted; above, those of SAMPLE of each side.
MAX_EXACT = 20_000
SAMPLE = 60
# A common word takes long to count, and is counted wrong together with the rare ones.
MAX_DF = 2000
_TOTALS = """
SELECT s.id, s.n_chunks + coalesce(d.chunks, 0), s.sum_len + coalesce(d.len, 0),
  coalesce(l.n, 0), coalesce(l.len, 0)
FROM rag_store s
LEFT JOIN (SELECT store_id, sum(chunks) AS chunks, sum(len) AS len FROM rag_term_delta GROUP BY 1) d
  ON d.store_id = s.id
LEFT JOIN (SELECT store_id, count(*) AS n, sum(len) AS len FROM rag_chunk_lex GROUP BY 1) l
  ON l.store_id = s.id
WHERE s.backend = 'local' ORDER BY s.id
"""
_TOLD = """
told AS (SELECT key, sum(df)::int AS df FROM (
  SELECT key, df FROM rag_term_stat WHERE store_id = %(store)s
  UNION ALL SELECT u.key, u.df FROM rag_term_pack p, unnest(p.keys, p.dfs) u(key, df)
    WHERE p.store_id = %(store)s
  UNION ALL SELECT u.key, u.n FROM rag_term_delta d, unnest(d.keys, d.dn) u(key, n)
    WHERE d.store_id = %(store)s) x GROUP BY key)
"""
_EXACT = f"""
WITH {_TOLD},
seen AS (SELECT key, count(*)::int AS df FROM rag_chunk_lex, unnest(rag_terms(w)) key
  WHERE store_id = %(store)s GROUP BY key)
SELECT count(*), count(*) FILTER (WHERE coalesce(told.df, 0) <> coalesce(seen.df, 0))
FROM told FULL JOIN seen USING (key)
"""
# Terms of both sides: some that are told, and those of some chunks.
_SAMPLED = f"""
WITH {_TOLD},
asked AS (
  (SELECT key FROM told WHERE df > 0 ORDER BY hashint4(key) LIMIT {SAMPLE})
  UNION (SELECT key FROM (SELECT w FROM rag_chunk_lex TABLESAMPLE SYSTEM (%(share)s)
    WHERE store_id = %(store)s LIMIT 20) c, unnest(rag_terms(c.w)) key
    ORDER BY hashint4(key) LIMIT {SAMPLE}))
SELECT asked.key, coalesce(told.df, 0) FROM asked LEFT JOIN told USING (key)
WHERE coalesce(told.df, 0) <= {MAX_DF}
"""
_SHARE = """
SELECT least(100, 20000.0 / greatest(reltuples, 1))::float8 FROM pg_class
WHERE oid = 'rag_chunk_lex'::regclass
"""
_COUNT = """
SELECT count(*) FROM rag_chunk_lex WHERE store_id = %s AND rag_terms(w) @> ARRAY[%s::int]
"""


def totals() -> Iterator[Finding]:
    """Tell stores whose number or length of chunks is counted wrong; BM25 rests on both."""
    for store_id, n_told, len_told, n_seen, len_seen in _rows(_TOTALS):
        if (n_told, len_told) != (n_seen, len_seen):
            told = f"{n_told} chunks are counted, {n_seen} are there"
            yield Finding(
                "totals", "warning", f"store {store_id}: {told} (length {len_told}, {len_seen})",
                "Count them anew.", facts={"store": store_id, "told": n_told, "seen": n_seen},
                fix=partial(_recount, store_id),
            )  # fmt: skip


def frequencies() -> Iterator[Finding]:
    """Tell stores whose document frequencies differ from their chunks."""
    for store_id, n_chunks in models.Store.objects.filter(
        backend=models.Store.Backend.LOCAL, n_chunks__gt=0
    ).order_by("pk").values_list("pk", "n_chunks"):  # fmt: skip
        n_terms, n_wrong = _drift(store_id, n_chunks)
        if n_wrong:
            how = "exact" if n_chunks <= MAX_EXACT else f"sample of {n_terms} terms"
            told = f"store {store_id}: {n_wrong} of {n_terms} terms are counted wrong"
            facts = {"store": store_id, "wrong": n_wrong, "terms": n_terms}
            yield Finding("frequencies", "warning", told, "Count them anew.", how, facts,
                          partial(_recount, store_id))  # fmt: skip


def _drift(store_id: int, n_chunks: int) -> tuple[int, int]:
    if n_chunks <= MAX_EXACT:
        ((n_terms, n_wrong),) = _rows(_EXACT, {"store": store_id})
        return n_terms, n_wrong
    # Pages for about 20 chunks, wherever in the table those of the store lie.
    ((share,),) = _rows(_SHARE)
    asked = _rows(_SAMPLED, {"store": store_id, "share": max(share, 0.001)})
    wrong = sum(_rows(_COUNT, [store_id, key])[0][0] != df for key, df in asked)
    return len(asked), wrong


def _rows(statement: str, params: Any = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return list(cursor.fetchall())


def _recount(store_id: int) -> str:
    stats.recount(store_id)
    return f"counted the terms of store {store_id} anew"

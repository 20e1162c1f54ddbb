"""Consistency checks of chunks, vectors, terms, restrictions and BM25 statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from django.db import connection, transaction

from rag import models
from rag.core.derived_texts import derived_texts
from rag.providers.postgres.db.connections import execute, fetch_rows
from rag.providers.postgres.lexical import reweigh
from rag.providers.postgres.lexical import statistics as stats
from rag.services.files import requeue_files
from rag.services.index import reweigh_if_drifted
from rag.services.operations.check_result import CheckResult

_NO_VECTOR = """
SELECT c.store_id, count(*), array_agg(DISTINCT c.file_id)
FROM rag_chunk c JOIN rag_store s ON s.id = c.store_id AND s.space_id IS NOT NULL
LEFT JOIN rag_chunk_vec v ON v.chunk_id = c.id AND v.space_id = s.space_id
WHERE c.is_live AND v.chunk_id IS NULL GROUP BY 1
"""
_NO_TERMS = """
SELECT c.store_id, count(*), array_agg(DISTINCT c.file_id)
FROM rag_chunk c LEFT JOIN rag_chunk_lex l ON l.chunk_id = c.id
WHERE c.is_live AND l.chunk_id IS NULL GROUP BY 1
"""
_VECTORS_ALONE = """
SELECT v.space_id, count(*) FROM rag_chunk_vec v
LEFT JOIN rag_chunk c ON c.id = v.chunk_id AND c.is_live WHERE c.id IS NULL GROUP BY 1
"""
_TERMS_ALONE = """
SELECT l.store_id, count(*) FROM rag_chunk_lex l
LEFT JOIN rag_chunk c ON c.id = l.chunk_id AND c.is_live WHERE c.id IS NULL GROUP BY 1
"""
_DROP_VECTORS = """
DELETE FROM rag_chunk_vec v WHERE NOT EXISTS (
  SELECT FROM rag_chunk c WHERE c.id = v.chunk_id AND c.is_live)
"""
_DROP_TERMS = """
SELECT rag_unindex(array_agg(l.chunk_id)) FROM rag_chunk_lex l
LEFT JOIN rag_chunk c ON c.id = l.chunk_id AND c.is_live WHERE c.id IS NULL
"""
# Files of which the index knows other groups than they are restricted to, or any though they are
# open. Of such rows alone the chunk is looked up: those that have none are reported by themselves.
_MISMATCHES = """
WITH r AS (SELECT file_id, array_agg(group_id ORDER BY group_id) AS groups
  FROM rag_file_restricted_to GROUP BY 1),
m AS MATERIALIZED (SELECT chunk_id, file_id, groups IS NULL AS is_open FROM (
  SELECT chunk_id, file_id, restricted FROM rag_chunk_lex UNION ALL
  SELECT chunk_id, file_id, restricted FROM rag_chunk_vec) x LEFT JOIN r USING (file_id)
  WHERE restricted IS DISTINCT FROM groups)
SELECT DISTINCT file_id, is_open FROM m
WHERE EXISTS (SELECT FROM rag_chunk c WHERE c.id = m.chunk_id AND c.is_live OFFSET 0) ORDER BY 1
"""
_RESTS_ON_GONE = """
answer <> '' AND EXISTS (SELECT FROM unnest(chunk_ids) pk
  WHERE NOT EXISTS (SELECT FROM rag_chunk c WHERE c.id = pk))
"""
_LOGGED = f"SELECT count(*) FROM rag_querylog WHERE {_RESTS_ON_GONE}"
_PURGE_LOGGED = f"UPDATE rag_querylog SET answer = '', citations = '[]' WHERE {_RESTS_ON_GONE}"
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
_COUNTED = """
counted AS (SELECT key, sum(df)::int AS df FROM (
  SELECT key, df FROM rag_term_stat WHERE store_id = %(store)s
  UNION ALL SELECT u.key, u.df FROM rag_term_pack p, unnest(p.keys, p.dfs) u(key, df)
    WHERE p.store_id = %(store)s
  UNION ALL SELECT u.key, u.n FROM rag_term_delta d, unnest(d.keys, d.dn) u(key, n)
    WHERE d.store_id = %(store)s) x GROUP BY key)
"""
_EXACT = f"""
WITH {_COUNTED},
seen AS (SELECT key, count(*)::int AS df FROM rag_chunk_lex, unnest(rag_terms(w)) key
  WHERE store_id = %(store)s GROUP BY key)
SELECT count(*), count(*) FILTER (WHERE coalesce(counted.df, 0) <> coalesce(seen.df, 0))
FROM counted FULL JOIN seen USING (key)
"""
# Terms of both sides: some that are counted, and those of some chunks.
_SAMPLED = f"""
WITH {_COUNTED},
sampled AS (
  (SELECT key FROM counted WHERE df > 0 ORDER BY hashint4(key) LIMIT {SAMPLE})
  UNION (SELECT key FROM (SELECT w FROM rag_chunk_lex TABLESAMPLE SYSTEM (%(share)s)
    WHERE store_id = %(store)s LIMIT 20) c, unnest(rag_terms(c.w)) key
    ORDER BY hashint4(key) LIMIT {SAMPLE}))
SELECT sampled.key, coalesce(counted.df, 0) FROM sampled LEFT JOIN counted USING (key)
WHERE coalesce(counted.df, 0) <= {MAX_DF}
"""
_SHARE = """
SELECT least(100, 20000.0 / greatest(reltuples, 1))::float8 FROM pg_class
WHERE oid = 'rag_chunk_lex'::regclass
"""
_COUNT = """
SELECT count(*) FROM rag_chunk_lex WHERE store_id = %s AND rag_terms(w) @> ARRAY[%s::int]
"""


def check_missing_rows() -> Iterator[CheckResult]:
    """Report live chunks that no search can find, for they lack a vector or their terms."""
    for name, statement in (("vectors", _NO_VECTOR), ("terms", _NO_TERMS)):
        for store_id, n, file_ids in fetch_rows(statement):
            yield CheckResult(
                f"chunks without {name}",
                "error",
                f"store {store_id}: {n} chunks of {len(file_ids)} files have no {name}",
                "Index the files again.",
                facts={"store": store_id, "chunks": n, "files": file_ids[:20]},
                fix=partial(_reindex, name, store_id, file_ids),
            )


def check_orphan_rows() -> Iterator[CheckResult]:
    """Report vectors and terms of chunks that are gone: they take room and may be counted."""
    found = (
        ("vectors", "space", _VECTORS_ALONE, _DROP_VECTORS),
        ("terms", "store", _TERMS_ALONE, _DROP_TERMS),
    )
    for name, of, statement, cure in found:
        for number, n in fetch_rows(statement):
            yield CheckResult(
                f"{name} without chunks",
                "error",
                f"{of} {number}: {n} {name} have no live chunk",
                "Remove them.",
                facts={of: number, "rows": n},
                fix=partial(_remove, name, cure),
            )


def check_restrictions() -> Iterator[CheckResult]:
    """Report files whose restriction the index does not know, and open files that it hides."""
    found = fetch_rows(_MISMATCHES)
    for is_open, what in (
        (False, "the index does not know whom {n} files are restricted to"),
        (True, "the index hides {n} files that are restricted to nobody"),
    ):
        if file_ids := [file_id for file_id, has_none in found if has_none == is_open]:
            yield CheckResult(
                "restrictions",
                "error",
                what.format(n=len(file_ids)),
                "Bring the index in line now.",
                facts={"files": file_ids[:20]},
                fix=partial(_restrict, file_ids),
            )


def _reindex(name: str, store_id: int, file_ids: Sequence[int]) -> str:
    store = models.Store.objects.get(pk=store_id)
    queued = requeue_files(store=store, file_ids=list(file_ids), fresh_vectors=name == "vectors")
    return f"{len(queued)} files without {name} are queued"


def _remove(name: str, statement: str) -> str:
    with transaction.atomic(), connection.cursor() as cursor:
        # Files that are being swapped in would lose theirs.
        cursor.execute("LOCK TABLE rag_chunk IN SHARE MODE")
        cursor.execute(statement)
    return f"removed {name} without chunks"


def _restrict(file_ids: list[int]) -> str:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT FROM rag_file WHERE id = ANY(%s) FOR NO KEY UPDATE", [file_ids])
        cursor.execute("SELECT rag_restrict(%s)", [file_ids])
    return f"brought {len(file_ids)} files in line in the index"


def check_derived_texts() -> Iterator[CheckResult]:
    """Report kept answers, runs and memories that rest on what is deleted."""
    ((n_logged,),) = fetch_rows(_LOGGED)
    kinds = [(kind.name, kind.left_over(), kind.redact_all) for kind in derived_texts()]
    for name, n, cure in (("logged answers", n_logged, _purge_logged), *kinds):
        if n:
            yield CheckResult(
                "kept texts",
                "error",
                f"{n} {name} rest on chunks that are deleted",
                "Take out what they say from these.",
                facts={"kind": name, "rows": n},
                fix=partial(_redact, name, cure),
            )


def _redact(name: str, cure: Callable[[], int]) -> str:
    return f"redacted {cure()} {name}"


def _purge_logged() -> int:
    return execute(_PURGE_LOGGED)


def check_pending_statistics() -> Iterator[CheckResult]:
    """Report stores whose last changes are not in their statistics yet."""
    stores = stats.stores_with_deltas()
    if stores:
        yield CheckResult(
            "deltas",
            "note",
            f"changes of {len(stores)} stores are not rolled up yet",
            "The worker does it within seconds.",
            facts={"stores": stores[:20]},
            fix=partial(_roll_up, stores),
        )


def check_weights() -> Iterator[CheckResult]:
    """Report stores whose chunks have become longer or shorter than their weights were made for."""
    for store_id in reweigh.drifted_stores():
        yield CheckResult(
            "weights",
            "warning",
            f"store {store_id}: the mean length has left its band",
            "Weigh its chunks anew.",
            facts={"store": store_id},
            fix=partial(_reweigh, store_id),
        )


def _roll_up(stores: list[int]) -> str:
    stats.roll_up(stores)
    return f"rolled up {len(stores)} stores"


def _reweigh(store_id: int) -> str:
    reweigh_if_drifted(store_id=store_id)
    return f"store {store_id} is weighed anew"


def check_totals() -> Iterator[CheckResult]:
    """Report stores whose number or length of chunks is counted wrong; BM25 rests on both."""
    for store_id, n_counted, len_counted, n_seen, len_seen in fetch_rows(_TOTALS):
        if (n_counted, len_counted) != (n_seen, len_seen):
            counted = f"{n_counted} chunks are counted, {n_seen} are there"
            yield CheckResult(
                "totals",
                "warning",
                f"store {store_id}: {counted} (length {len_counted}, {len_seen})",
                "Count them anew.",
                facts={"store": store_id, "told": n_counted, "seen": n_seen},
                fix=partial(_recount, store_id),
            )


def check_frequencies() -> Iterator[CheckResult]:
    """Report stores whose document frequencies differ from their chunks."""
    for store_id, n_chunks in (
        models.Store.objects.filter(backend=models.Store.Backend.LOCAL, n_chunks__gt=0)
        .order_by("pk")
        .values_list("pk", "n_chunks")
    ):
        n_terms, n_wrong = _drift(store_id, n_chunks)
        if n_wrong:
            how = "exact" if n_chunks <= MAX_EXACT else f"sample of {n_terms} terms"
            counted = f"store {store_id}: {n_wrong} of {n_terms} terms are counted wrong"
            facts = {"store": store_id, "wrong": n_wrong, "terms": n_terms}
            yield CheckResult(
                "frequencies",
                "warning",
                counted,
                "Count them anew.",
                how,
                facts,
                partial(_recount, store_id),
            )


def _drift(store_id: int, n_chunks: int) -> tuple[int, int]:
    if n_chunks <= MAX_EXACT:
        ((n_terms, n_wrong),) = fetch_rows(_EXACT, {"store": store_id})
        return n_terms, n_wrong
    # Pages for about 20 chunks, wherever in the table those of the store lie.
    ((share,),) = fetch_rows(_SHARE)
    sampled = fetch_rows(_SAMPLED, {"store": store_id, "share": max(share, 0.001)})
    wrong = sum(fetch_rows(_COUNT, [store_id, key])[0][0] != df for key, df in sampled)
    return len(sampled), wrong


def _recount(store_id: int) -> str:
    stats.recount_statistics(store_id)
    return f"counted the terms of store {store_id} anew"

"""Recall@10 of HNSW against the exact answers, of a store or of a filtered search."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from rag.core.ports import IndexQuery, StoreTarget
from rag.core.types import RetrievalSettings
from rag.providers.postgres.search.index import PostgresIndex

SAMPLE = 50
TOP_K = 10
_SAMPLE = """
SELECT embedding::text FROM rag_chunk_vec_s{space} WHERE store_id = %s AND enabled
ORDER BY hashint8(chunk_id) LIMIT {limit}
"""


def sample_recall(target: StoreTarget) -> float:
    """Return recall@10 of the way that searches take, on up to 50 of the store's own vectors.

    The exact answers come from the same statement without an index; 1.0 for an empty store.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SAMPLE.format(space=int(target.space_id), limit=SAMPLE), [target.store_id])
        rows = [json.loads(row[0]) for row in cursor.fetchall()]
    asked = RecallQuestion(target)
    exact = replace(target, n_chunks=0, sees_restricted=True, has_hnsw=False, has_partial=False)
    n_found = n_wanted = 0
    for row in rows:
        vector = np.array(row, dtype=np.float32)
        wanted = _hits(exact, vector, asked)
        n_wanted += len(wanted)
        n_found += len(wanted & _hits(target, vector, asked))
    return n_found / n_wanted if n_wanted else 1.0


# Of a large table only some pages are read; every vector of it is as likely as another.
_SAMPLE_FILTERED = """
SELECT embedding::text FROM rag_chunk_vec_s{space} TABLESAMPLE SYSTEM ({share:.6f})
WHERE store_id = %s AND enabled LIMIT {limit}
"""
_PAGES_A_SAMPLE = 40


@dataclass(frozen=True, slots=True)
class RecallQuestion:
    """A store and what a searcher filters by."""

    target: StoreTarget
    content_types: tuple[str, ...] = ()
    sees_restricted: bool = True


@dataclass(frozen=True, slots=True)
class Recall:
    """The share of the exact answers that was found, on so many questions."""

    recall: float
    n_asked: int


def measure_recall(question: RecallQuestion, *, until: float) -> Recall:
    """Return recall@10 on up to 50 of the store's own vectors, or fewer by ``until``.

    That is a time of ``time.monotonic``. The exact answers come from the same statement without
    an index. 1.0 and nothing asked for a store without vectors.
    """
    found = wanted = n_asked = 0
    target = replace(question.target, sees_restricted=question.sees_restricted)
    exact = replace(target, n_chunks=0, has_hnsw=False, has_partial=False)
    for vector in _vectors(target):
        if time.monotonic() > until:
            break
        right = _hits(exact, vector, question)
        wanted += len(right)
        found += len(right & _hits(target, vector, question))
        n_asked += 1
    return Recall(found / wanted if wanted else 1.0, n_asked)


def _vectors(target: StoreTarget) -> list[NDArray[np.float32]]:
    table = f"rag_chunk_vec_s{int(target.space_id)}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_relation_size(%s::regclass) / 8192", [table])
        pages = max(1, cursor.fetchone()[0])
        wanted = SAMPLE * _PAGES_A_SAMPLE / max(target.share, 0.001)
        share = min(100.0, 100.0 * wanted / pages)
        statement = _SAMPLE_FILTERED.format(space=int(target.space_id), share=share, limit=SAMPLE)
        cursor.execute(statement, [target.store_id])
        return [np.array(json.loads(row[0]), dtype=np.float32) for row in cursor.fetchall()]


def _hits(target: StoreTarget, vector: NDArray[np.float32], asked: RecallQuestion) -> set[int]:
    settings = RetrievalSettings(mode="semantic", top_k=TOP_K, content_types=asked.content_types)
    query = IndexQuery(
        targets=[target],
        group_ids=frozenset(),
        vectors={target.space_id: vector},
        terms={},
        settings=settings,
        top_k=TOP_K,
    )
    hits, _ = PostgresIndex().search(query)
    return {hit.chunk_id for hit in hits if hit.chunk_id is not None}

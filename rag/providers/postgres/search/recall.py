"""Recall@10 of HNSW against the exact answers, of a store or of a filtered search."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rag.core.ports import IndexQuery, StoreTarget
from rag.core.types import RetrievalSettings
from rag.providers.postgres.db.connections import fetch_row, fetch_rows
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
    sample = _SAMPLE.format(space=int(target.space_id), limit=SAMPLE)
    rows = fetch_rows(sample, [target.store_id])
    exact = replace(target, n_chunks=0, sees_restricted=True, has_hnsw=False, has_partial=False)
    return _measure(target, exact, map(_vector, rows), RecallQuestion(target)).recall


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
    target = replace(question.target, sees_restricted=question.sees_restricted)
    exact = replace(target, n_chunks=0, has_hnsw=False, has_partial=False)
    return _measure(target, exact, _vectors(target), question, until)


def _measure(
    target: StoreTarget,
    exact: StoreTarget,
    vectors: Iterable[NDArray[np.float32]],
    asked: RecallQuestion,
    until: float = math.inf,
) -> Recall:
    found = wanted = n_asked = 0
    for vector in vectors:
        if time.monotonic() > until:
            break
        right = _hits(exact, vector, asked)
        wanted += len(right)
        found += len(right & _hits(target, vector, asked))
        n_asked += 1
    return Recall(found / wanted if wanted else 1.0, n_asked)


def _vector(row: Sequence[str]) -> NDArray[np.float32]:
    return np.array(json.loads(row[0]), dtype=np.float32)


def _vectors(target: StoreTarget) -> list[NDArray[np.float32]]:
    table = f"rag_chunk_vec_s{int(target.space_id)}"
    pages = max(1, fetch_row("SELECT pg_relation_size(%s::regclass) / 8192", [table])[0])
    wanted = SAMPLE * _PAGES_A_SAMPLE / max(target.share, 0.001)
    share = min(100.0, 100.0 * wanted / pages)
    statement = _SAMPLE_FILTERED.format(space=int(target.space_id), share=share, limit=SAMPLE)
    return list(map(_vector, fetch_rows(statement, [target.store_id])))


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

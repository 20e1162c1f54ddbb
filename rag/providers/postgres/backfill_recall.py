"""How much of the exact answer HNSW finds. In: a store in a space. Out: recall@10, 0 to 1."""

from __future__ import annotations

import json

import numpy as np
from django.db import connection

from rag.core.ports import IndexQuery, StoreTarget
from rag.core.types import RetrievalSettings
from rag.providers.postgres.search import PostgresIndex

SAMPLE = 50
TOP_K = 10
_SAMPLE = """
SELECT embedding::text FROM rag_chunk_vec_s{space} WHERE store_id = %s AND enabled
ORDER BY hashint8(chunk_id) LIMIT {limit}
"""


def recall_of(target: StoreTarget) -> float:
    """Return recall@10 of the way that searches take, on up to 50 of the store's own vectors.

    The exact answers come from the same statement without an index; 1.0 for an empty store.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SAMPLE.format(space=int(target.space_id), limit=SAMPLE), [target.store_id])
        rows = [json.loads(row[0]) for row in cursor.fetchall()]
    exact = StoreTarget(
        store_id=target.store_id, space_id=target.space_id, dim=target.dim, n_chunks=0,
        sees_restricted=True,
    )  # fmt: skip
    n_found = n_wanted = 0
    for row in rows:
        vector = np.array(row, dtype=np.float32)
        wanted = _found(exact, vector)
        n_wanted += len(wanted)
        n_found += len(wanted & _found(target, vector))
    return n_found / n_wanted if n_wanted else 1.0


def _found(target: StoreTarget, vector: np.ndarray) -> set[int]:
    query = IndexQuery(
        targets=[target], group_ids=frozenset(), vectors={target.space_id: vector}, terms={},
        settings=RetrievalSettings(mode="semantic", top_k=TOP_K), top_k=TOP_K,
    )  # fmt: skip
    hits, _ = PostgresIndex().search(query)
    return {hit.chunk_id for hit in hits if hit.chunk_id is not None}

"""Upsert of one chunk's rows in the vector and the lexical index, with the statistics.

All in the caller's transaction, which holds the chunk's file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from django.db import connection

from rag.providers.postgres.db.connections import execute
from rag.providers.postgres.db.literals import sparse_literal, vector_literal
from rag.providers.postgres.lexical.bm25 import bm25_weights
from rag.stages.text.terms import index_terms, is_han

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_RESTRICTED = """(SELECT array_agg(group_id ORDER BY group_id) FROM rag_file_restricted_to r
  WHERE r.file_id = c.file_id)"""
_VECTOR = f"""
INSERT INTO rag_chunk_vec (space_id, store_id, chunk_id, file_id, enabled, is_han, content_type,
  restricted, embedding)
SELECT %s, c.store_id, c.id, c.file_id, c.enabled, %s, c.content_type, {_RESTRICTED}, %s::halfvec
FROM rag_chunk c WHERE c.id = %s
"""
_TERMS = f"""
WITH l AS (
  INSERT INTO rag_chunk_lex (chunk_id, file_id, store_id, len, enabled, is_han, content_type,
    restricted, w)
  SELECT c.id, c.file_id, c.store_id, %s, c.enabled, %s, c.content_type, {_RESTRICTED},
    %s::sparsevec
  FROM rag_chunk c WHERE c.id = %s RETURNING store_id, len, rag_terms(w) AS keys)
INSERT INTO rag_term_delta (store_id, keys, dn, chunks, len)
SELECT store_id, keys, array_fill(1, ARRAY[cardinality(keys)]), 1, len FROM l
"""


def write_index_rows(
    chunk_id: int, indexed: str, vectors: Mapping[int, NDArray[np.float32]]
) -> None:
    """Let a chunk be found by ``indexed``, its text with its header, and by a vector a space.

    The chunk's own row says the rest. Nothing that it was found by before is left.
    """
    delete_index_rows([chunk_id])
    counts = index_terms(indexed)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT s.id, s.avg_len_frozen FROM rag_chunk c JOIN rag_store s ON s.id = c.store_id"
            " WHERE c.id = %s",
            [chunk_id],
        )
        store_id, avg_len = cursor.fetchone()
        han = is_han(indexed)
        for space_id, vector in vectors.items():
            cursor.execute(_VECTOR, [space_id, han, vector_literal(vector), chunk_id])
        weights = sparse_literal(bm25_weights(store_id, counts, avg_len))
        cursor.execute(_TERMS, [counts.total(), han, weights, chunk_id])


def delete_index_rows(chunk_ids: Sequence[int]) -> None:
    """Let chunks be found no more; their statistics go with them."""
    execute("SELECT rag_unindex(%s)", [list(chunk_ids)])

"""Chunks, vectors and terms that must go together. Out: findings, each counted in one statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from django.db import connection, transaction

from rag import models
from rag.services.doctor_finding import Finding
from rag.services.reindex import reindex

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
# Whoever is restricted in the files must be so in what searches read.
_OPEN = """
WITH r AS (SELECT file_id, array_agg(group_id ORDER BY group_id) AS groups
  FROM rag_file_restricted_to GROUP BY 1)
SELECT array_agg(DISTINCT file_id) FROM (
  SELECT r.file_id FROM r JOIN rag_chunk_lex l USING (file_id)
    WHERE l.restricted IS DISTINCT FROM r.groups
  UNION ALL SELECT r.file_id FROM r JOIN rag_chunk_vec v USING (file_id)
    WHERE v.restricted IS DISTINCT FROM r.groups) x
"""


def chunks_without_rows() -> Iterator[Finding]:
    """Tell live chunks that no search can find, for they lack a vector or their terms."""
    for name, statement in (("vectors", _NO_VECTOR), ("terms", _NO_TERMS)):
        for store_id, n, file_ids in _rows(statement):
            yield Finding(
                f"chunks without {name}", "error",
                f"store {store_id}: {n} chunks of {len(file_ids)} files have no {name}",
                "Index the files again.",
                facts={"store": store_id, "chunks": n, "files": file_ids[:20]},
                fix=partial(_index_again, name, store_id, file_ids),
            )  # fmt: skip


def rows_without_chunks() -> Iterator[Finding]:
    """Tell vectors and terms of chunks that are gone: they take room and may be counted."""
    found = (("vectors", "space", _VECTORS_ALONE, _DROP_VECTORS),
             ("terms", "store", _TERMS_ALONE, _DROP_TERMS))  # fmt: skip
    for name, of, statement, cure in found:
        for number, n in _rows(statement):
            yield Finding(
                f"{name} without chunks", "error", f"{of} {number}: {n} {name} have no live chunk",
                "Remove them.", facts={of: number, "rows": n}, fix=partial(_remove, name, cure),
            )  # fmt: skip


def restrictions() -> Iterator[Finding]:
    """Tell files whose restriction the index does not know: others may find them."""
    ((file_ids,),) = _rows(_OPEN)
    if file_ids:
        yield Finding(
            "restrictions", "error",
            f"the index does not know whom {len(file_ids)} files are restricted to",
            "Bring the index in line now.", facts={"files": file_ids[:20]},
            fix=partial(_restrict, file_ids),
        )  # fmt: skip


def _rows(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def _index_again(name: str, store_id: int, file_ids: Sequence[int]) -> str:
    store = models.Store.objects.get(pk=store_id)
    queued = reindex(store=store, file_ids=list(file_ids), fresh_vectors=name == "vectors")
    return f"{len(queued)} files without {name} are queued"


def _remove(name: str, statement: str) -> str:
    with transaction.atomic(), connection.cursor() as cursor:
        # Files that are being swapped in would lose theirs.
        cursor.execute("LOCK TABLE rag_chunk IN SHARE MODE")
        cursor.execute(statement)
    return f"removed {name} without chunks"


def _restrict(file_ids: Sequence[int]) -> str:
    with transaction.atomic(), connection.cursor() as cursor:
        held = "SELECT FROM rag_file WHERE id = ANY(%s) FOR NO KEY UPDATE"
        cursor.execute(held, [list(file_ids)])
        cursor.execute("SELECT rag_restrict(%s)", [list(file_ids)])
    return f"restricted {len(file_ids)} files in the index"

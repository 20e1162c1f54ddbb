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
# Files of which the index knows other groups than they are restricted to, or any though they are
# open. Of such rows alone the chunk is looked up: those that have none are told by themselves.
_MISFITS = """
WITH r AS (SELECT file_id, array_agg(group_id ORDER BY group_id) AS groups
  FROM rag_file_restricted_to GROUP BY 1),
m AS MATERIALIZED (SELECT chunk_id, file_id, groups IS NULL AS is_open FROM (
  SELECT chunk_id, file_id, restricted FROM rag_chunk_lex UNION ALL
  SELECT chunk_id, file_id, restricted FROM rag_chunk_vec) x LEFT JOIN r USING (file_id)
  WHERE restricted IS DISTINCT FROM groups)
SELECT DISTINCT file_id, is_open FROM m
WHERE EXISTS (SELECT FROM rag_chunk c WHERE c.id = m.chunk_id AND c.is_live OFFSET 0) ORDER BY 1
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
    """Tell files whose restriction the index does not know, and open files that it hides."""
    found = _rows(_MISFITS)
    for is_open, what in (
        (False, "the index does not know whom {n} files are restricted to"),
        (True, "the index hides {n} files that are restricted to nobody"),
    ):
        if file_ids := [file_id for file_id, has_none in found if has_none == is_open]:
            yield Finding(
                "restrictions", "error", what.format(n=len(file_ids)),
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


def _restrict(file_ids: list[int]) -> str:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT FROM rag_file WHERE id = ANY(%s) FOR NO KEY UPDATE", [file_ids])
        cursor.execute("SELECT rag_restrict(%s)", [file_ids])
    return f"brought {len(file_ids)} files in line in the index"

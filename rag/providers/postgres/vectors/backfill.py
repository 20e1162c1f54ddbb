"""Backfill of a space beside the live one, and the switch of a store to it.

Vectors are written under the file's and the chunk's lock, for the revision that was embedded, so no
space ever holds a vector of a text that is gone. Rows go straight to the space's partition: nothing
that searches see has changed, so what they have cached stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from django.db import OperationalError, connection, transaction

from rag.providers.postgres.db.connections import fetch_rows
from rag.providers.postgres.db.literals import vector_literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

REMOVED_AT_ONCE = 5000
_MISSING = """
SELECT c.id FROM rag_chunk c WHERE c.store_id = %s AND c.is_live{files}
  AND NOT EXISTS (SELECT FROM rag_chunk_vec_s{space} v WHERE v.chunk_id = c.id) ORDER BY c.id
"""
_PASSAGES = """
SELECT id, revision, CASE WHEN context = '' THEN text ELSE context || E'\\n' || text END
FROM rag_chunk WHERE id = ANY(%s) AND is_live ORDER BY id
"""
_FILES = """
SELECT FROM rag_file WHERE id IN (SELECT file_id FROM rag_chunk WHERE id = ANY(%s))
ORDER BY id FOR SHARE
"""
_INSERT = """
INSERT INTO rag_chunk_vec_s{space} AS v (space_id, store_id, chunk_id, file_id, enabled, is_han,
  content_type, restricted, embedding)
SELECT {space}, l.store_id, l.chunk_id, l.file_id, l.enabled, l.is_han, l.content_type,
  l.restricted, n.embedding::halfvec
FROM unnest(%s::bigint[], %s::int[], %s::text[]) n(chunk_id, revision, embedding)
  JOIN rag_chunk c ON c.id = n.chunk_id AND c.revision = n.revision AND c.is_live
  JOIN rag_chunk_lex l ON l.chunk_id = c.id
FOR SHARE OF c
ON CONFLICT (chunk_id, space_id) DO {conflict}
"""
_REMOVE = """
DELETE FROM rag_chunk_vec_s{space} WHERE chunk_id IN (
  SELECT chunk_id FROM rag_chunk_vec_s{space} WHERE store_id = %s LIMIT {limit})
"""


@dataclass(frozen=True, slots=True)
class EmbeddableChunk:
    """A live chunk at a revision, with the text that is embedded."""

    chunk_id: int
    revision: int
    text: str


def chunks_without_vector(
    space_id: int, store_id: int, file_ids: Sequence[int] | None = None
) -> list[int]:
    """Return the store's live chunks without a vector in the space, in order."""
    files = "" if file_ids is None else " AND c.file_id = ANY(%s)"
    values: list[Any] = [store_id] if file_ids is None else [store_id, list(file_ids)]
    return [row[0] for row in fetch_rows(_MISSING.format(space=int(space_id), files=files), values)]


def read_embeddable(chunk_ids: Sequence[int]) -> list[EmbeddableChunk]:
    """Return those of the chunks that are live, with what of them is embedded."""
    return [EmbeddableChunk(*row) for row in fetch_rows(_PASSAGES, [list(chunk_ids)])]


def write_vectors(
    space_id: int,
    passages: Sequence[EmbeddableChunk],
    vectors: NDArray[np.float32],
    *,
    again: bool = False,
) -> int:
    """Write the vectors of chunks that still say what was embedded; return how many.

    A vector that is there already stays, unless ``again``.
    """
    conflict = "UPDATE SET embedding = excluded.embedding" if again else "NOTHING"
    ids = [passage.chunk_id for passage in passages]
    with transaction.atomic(), connection.cursor() as cursor:
        # Who restricts, edits or replaces a file holds it, and would not see these rows.
        cursor.execute(_FILES, [ids])
        cursor.execute(
            _INSERT.format(space=int(space_id), conflict=conflict),
            [ids, [passage.revision for passage in passages], [vector_literal(v) for v in vectors]],
        )
        return int(cursor.rowcount)


def delete_vectors(space_id: int, store_id: int) -> int:
    """Remove a store's vectors from a space that it does not stand on; return how many."""
    n_removed = 0
    statement = _REMOVE.format(space=int(space_id), limit=REMOVED_AT_ONCE)
    with connection.cursor() as cursor:
        while True:
            cursor.execute(statement, [store_id])
            if not cursor.rowcount:
                return n_removed
            n_removed += int(cursor.rowcount)


_KEY = "hashtextextended('rag_reindex_run:' || %s, 0)"


@contextmanager
def reindex_lock(run_id: int) -> Iterator[None]:
    """Hold a run while the block runs; raise OperationalError while another one holds it.

    By a connection of its own: the pool's are given back while models work. Who dies holds
    nothing any more, for the lock ends with its connection.
    """
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as own:
        row = own.execute(f"SELECT pg_try_advisory_lock({_KEY})", [run_id]).fetchone()
        if row is None or not row[0]:
            raise OperationalError(f"reindex run {run_id} is in the hands of another process")
        yield


def switch_space(store_id: int, source_id: int, target_id: int) -> int:
    """Let a store stand on ``target_id``; return how many chunks still lack a vector there.

    Nothing is changed unless that is 0. Must run in a transaction. Searches go on meanwhile;
    writers of the store wait, and whoever prepared vectors for the old space learns it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT space_id FROM rag_store WHERE id = %s FOR UPDATE", [store_id])
        row = cursor.fetchone()
        if row is None or row[0] != source_id:
            return 0
        if n_missing := len(chunks_without_vector(target_id, store_id)):
            return n_missing
        cursor.execute("UPDATE rag_store SET space_id = %s WHERE id = %s", [target_id, store_id])
        return 0

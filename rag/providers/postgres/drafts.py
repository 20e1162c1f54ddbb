"""A file's next revision, prepared row by row and swapped in at once.

Rows are committed in batches, so that a job that died goes on where it stopped; searches never
see them before ``swap_in``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import connection

from rag.core.documents import Chunk
from rag.providers.postgres.keys import sparse_literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class DraftRow:
    """One chunk to come. ``vector`` None means: the live chunk of this text keeps its own."""

    chunk: Chunk
    sha256: str
    is_han: bool
    length: int
    weights: dict[int, float]
    vector: NDArray[np.float32] | None


@dataclass(frozen=True, slots=True)
class SwapTarget:
    """Where a draft goes; ``revision`` is the one that it becomes."""

    file_id: int
    store_id: int
    space_id: int
    revision: int
    content_type: str


_COLUMNS = "file_id, ordinal, fingerprint, facts, text, sha256, is_han, len, w, embedding"
_FACTS = (
    "char_start int, char_end int, own_start int, page_first int, page_last int,"
    " heading_path jsonb, block_kinds jsonb, token_count int, context text"
)


def begin_draft(file_id: int, fingerprint: str) -> int:
    """Return how many rows of this very draft exist; rows of any other are removed.

    ``fingerprint`` names everything that the rows depend on: bytes, rule, model, terms.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM rag_chunk_draft WHERE file_id = %s AND fingerprint <> %s",
            [file_id, fingerprint],
        )
        cursor.execute("SELECT count(*) FROM rag_chunk_draft WHERE file_id = %s", [file_id])
        return int(cursor.fetchone()[0])


def add_rows(file_id: int, fingerprint: str, rows: Iterable[DraftRow]) -> None:
    """Append rows; equal ordinals are an error of the caller."""
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY rag_chunk_draft ({_COLUMNS}) FROM STDIN") as copy,
    ):
        for row in rows:
            chunk = row.chunk
            facts = {
                "char_start": chunk.char_start, "char_end": chunk.char_end,
                "own_start": chunk.own_start, "page_first": chunk.page_first,
                "page_last": chunk.page_last, "heading_path": list(chunk.heading_path),
                "block_kinds": list(chunk.block_kinds), "token_count": chunk.token_count,
                "context": chunk.context,
            }  # fmt: skip
            vector = None if row.vector is None else vector_literal(row.vector)
            copy.write_row(
                (file_id, chunk.ordinal, fingerprint, json.dumps(facts), chunk.text, row.sha256,
                 row.is_han, row.length, sparse_literal(row.weights), vector)
            )  # fmt: skip


def vector_literal(vector: NDArray[np.float32]) -> str:
    """Return pgvector's text form of a vector."""
    return "[" + ",".join(f"{x:.6g}" for x in vector.tolist()) + "]"


def reusable_texts(file_id: int, space_id: int, digests: Sequence[str]) -> set[str]:
    """Return those digests whose one live chunk has a vector that no draft row claims yet."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.sha256 FROM rag_chunk c JOIN rag_chunk_vec v"
            " ON v.chunk_id = c.id AND v.space_id = %s"
            " WHERE c.file_id = %s AND c.is_live AND c.sha256 = ANY(%s) AND NOT EXISTS ("
            "  SELECT FROM rag_chunk_draft d WHERE d.file_id = c.file_id"
            "  AND d.sha256 = c.sha256 AND d.embedding IS NULL)"
            " GROUP BY c.sha256 HAVING count(*) = 1",
            [space_id, file_id, list(digests)],
        )
        return {row[0] for row in cursor.fetchall()}


def swap_in(target: SwapTarget) -> int:
    """Make the draft the file's live revision and return its number of chunks.

    Must run inside the transaction that holds the file's row. Chunks with equal text keep their
    id and enabled flag, and their vector unless the draft brings a new one.
    """
    with connection.cursor() as cursor:
        for statement in _SWAP:
            cursor.execute(
                statement,
                {"file": target.file_id, "store": target.store_id, "space": target.space_id,
                 "revision": target.revision, "type": target.content_type},
            )  # fmt: skip
        cursor.execute("DELETE FROM rag_chunk_draft WHERE file_id = %s", [target.file_id])
        return int(cursor.rowcount)


_TWINS = """old AS (SELECT id, sha256, row_number() OVER (PARTITION BY sha256 ORDER BY ordinal) AS n
    FROM rag_chunk WHERE file_id = %(file)s AND file_revision < %(revision)s AND is_live),
  new AS (SELECT ordinal, facts, embedding, sha256, row_number() OVER (PARTITION BY sha256 ORDER BY ordinal) AS n
    FROM rag_chunk_draft WHERE file_id = %(file)s),
  twins AS (SELECT old.id, new.* FROM old JOIN new USING (sha256, n))"""

_SWAP = (
    # Out of the index: chunks without a twin, and twins that get a new vector.
    f"""WITH {_TWINS} SELECT rag_unindex(array_agg(old.id)) FROM old LEFT JOIN twins USING (id)
    WHERE twins.id IS NULL OR twins.embedding IS NOT NULL""",
    # A draft row that relied on a vector which is gone by now must not be swapped in half.
    f"""WITH {_TWINS} SELECT 1 / (count(*) = 0)::int FROM new LEFT JOIN twins USING (ordinal)
    WHERE new.embedding IS NULL AND twins.id IS NULL""",
    # Kept twins carry the new revision under a negative one first: positions may trade places.
    f"""WITH {_TWINS}, kept AS (
      UPDATE rag_chunk c SET is_live = false, file_revision = %(revision)s, ordinal = t.ordinal,
        char_start = f.char_start, char_end = f.char_end, own_start = f.own_start,
        page_first = f.page_first, page_last = f.page_last, heading_path = f.heading_path,
        block_kinds = f.block_kinds, token_count = f.token_count, context = f.context
      FROM twins t, jsonb_to_record(t.facts) AS f({_FACTS}) WHERE c.id = t.id RETURNING c.id)
    UPDATE rag_chunk SET is_live = false WHERE file_id = %(file)s AND is_live
      AND id NOT IN (SELECT id FROM kept) AND file_revision < %(revision)s""",
    "UPDATE rag_chunk SET is_live = true WHERE file_id = %(file)s AND file_revision = %(revision)s",
    f"""INSERT INTO rag_chunk (file_id, store_id, ordinal, char_start, char_end, own_start, page_first,
      page_last, heading_path, block_kinds, token_count, context, content_type, text, sha256, enabled,
      is_live, revision, file_revision)
    SELECT d.file_id, %(store)s, d.ordinal, f.char_start, f.char_end, f.own_start, f.page_first,
      f.page_last, f.heading_path, f.block_kinds, f.token_count, f.context, %(type)s, d.text, d.sha256,
      true, true, 1, %(revision)s
    FROM rag_chunk_draft d, jsonb_to_record(d.facts) AS f({_FACTS}) WHERE d.file_id = %(file)s
      AND NOT EXISTS (SELECT FROM rag_chunk c WHERE c.file_id = d.file_id AND c.ordinal = d.ordinal AND c.is_live)
    ORDER BY d.ordinal""",
    """INSERT INTO rag_chunk_vec (space_id, store_id, chunk_id, file_id, enabled, is_han, content_type,
      restricted, embedding)
    SELECT %(space)s, %(store)s, c.id, c.file_id, c.enabled, d.is_han, c.content_type,
      (SELECT array_agg(group_id ORDER BY group_id) FROM rag_file_restricted_to WHERE file_id = %(file)s), d.embedding
    FROM rag_chunk_draft d JOIN rag_chunk c ON c.file_id = d.file_id AND c.ordinal = d.ordinal AND c.is_live
    WHERE d.file_id = %(file)s AND d.embedding IS NOT NULL""",
    """WITH l AS (
      INSERT INTO rag_chunk_lex (chunk_id, file_id, store_id, len, enabled, is_han, content_type, restricted, w)
      SELECT c.id, c.file_id, %(store)s, d.len, c.enabled, d.is_han, c.content_type,
        (SELECT array_agg(group_id ORDER BY group_id) FROM rag_file_restricted_to WHERE file_id = %(file)s), d.w
      FROM rag_chunk_draft d JOIN rag_chunk c ON c.file_id = d.file_id AND c.ordinal = d.ordinal AND c.is_live
      WHERE d.file_id = %(file)s AND d.embedding IS NOT NULL RETURNING len, w),
    k AS (SELECT key, count(*)::int AS n FROM l, unnest(rag_terms(w)) key GROUP BY 1)
    INSERT INTO rag_term_delta (store_id, keys, dn, chunks, len)
    SELECT %(store)s, coalesce((SELECT array_agg(key) FROM k), '{}'), coalesce((SELECT array_agg(n) FROM k), '{}'),
      count(*), coalesce(sum(len), 0) FROM l HAVING count(*) > 0""",
)  # fmt: skip

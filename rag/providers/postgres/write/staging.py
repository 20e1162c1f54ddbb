"""Staging of a file's next revision, in batches so that a dead job resumes, and its canonical text.

Searches never see a staged row before ``swap_revision``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import connection

from rag.core.documents import Chunk
from rag.providers.postgres.db.connections import execute, fetch_rows
from rag.providers.postgres.db.literals import sparse_literal, vector_literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_COLUMNS = "file_id, ordinal, fingerprint, facts, text, sha256, is_han, len, w, embedding"


@dataclass(frozen=True, slots=True)
class StagedRow:
    """One chunk to come. ``vector`` None means: the live chunk of this text keeps its own."""

    chunk: Chunk
    sha256: str
    is_han: bool
    length: int
    weights: dict[int, float]
    vector: NDArray[np.float32] | None


def begin_staging(file_id: int, fingerprint: str) -> int:
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


def stage_rows(file_id: int, fingerprint: str, rows: Iterable[StagedRow]) -> None:
    """Append rows; equal ordinals are an error of the caller."""
    # Django wraps the errors of execute(), not those of copy().
    with (
        connection.wrap_database_errors,
        connection.cursor() as cursor,
        cursor.copy(f"COPY rag_chunk_draft ({_COLUMNS}) FROM STDIN") as copy,
    ):
        for row in rows:
            chunk = row.chunk
            facts = {
                "char_start": chunk.char_start,
                "char_end": chunk.char_end,
                "own_start": chunk.own_start,
                "page_first": chunk.page_first,
                "page_last": chunk.page_last,
                "heading_path": list(chunk.heading_path),
                "block_kinds": list(chunk.block_kinds),
                "token_count": chunk.token_count,
                "context": chunk.context,
                "parent_start": chunk.parent_start,
            }
            vector = None if row.vector is None else vector_literal(row.vector)
            copy.write_row(
                (
                    file_id,
                    chunk.ordinal,
                    fingerprint,
                    json.dumps(facts),
                    chunk.text,
                    row.sha256,
                    row.is_han,
                    row.length,
                    sparse_literal(row.weights),
                    vector,
                )
            )


def discard_staged(file_id: int) -> None:
    """Remove the rows of a file's draft."""
    execute("DELETE FROM rag_chunk_draft WHERE file_id = %s", [file_id])


def reusable_texts(file_id: int, space_id: int, digests: Sequence[str]) -> set[str]:
    """Return those digests whose one live chunk has a vector that no draft row claims yet."""
    # The others stay whatever the draft says: their vectors are none of its business.
    return {
        row[0]
        for row in fetch_rows(
            "SELECT c.sha256 FROM rag_chunk c JOIN rag_chunk_vec v"
            " ON v.chunk_id = c.id AND v.space_id = %s"
            " WHERE c.file_id = %s AND c.is_live AND c.sha256 = ANY(%s)"
            # The others stay whatever the draft says: their vectors are none of its business.
            " AND c.origin = 'parsed' AND c.enabled AND NOT EXISTS ("
            "  SELECT FROM rag_chunk_draft d WHERE d.file_id = c.file_id"
            "  AND d.sha256 = c.sha256 AND d.embedding IS NULL)"
            " GROUP BY c.sha256 HAVING count(*) = 1",
            [space_id, file_id, list(digests)],
        )
    }


def staged_spans(file_id: int) -> list[tuple[int, int, int]]:
    """Return (ordinal, own_start, char_end) of each row of a file's draft, in order."""
    return fetch_rows(
        "SELECT ordinal, (facts->>'own_start')::int, (facts->>'char_end')::int"
        " FROM rag_chunk_draft WHERE file_id = %s ORDER BY ordinal",
        [file_id],
    )


def remove_staged_rows(file_id: int, ordinals: Sequence[int]) -> None:
    """Remove rows of a file's draft."""
    execute(
        "DELETE FROM rag_chunk_draft WHERE file_id = %s AND ordinal = ANY(%s)",
        [file_id, list(ordinals)],
    )


PIECE = 1 << 20
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def write_canonical(file_id: int, text: str) -> None:
    """Set ``canonical_text`` of a file inside the caller's transaction.

    A bound parameter would be copied several times over; COPY sends a hundred megabytes piece
    by piece.
    """
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE rag_canonical (text text) ON COMMIT DROP")
        # Django wraps the errors of execute(), not those of copy().
        with connection.wrap_database_errors, cursor.copy("COPY rag_canonical FROM STDIN") as copy:
            for start in range(0, len(text), PIECE):
                copy.write(text[start : start + PIECE].translate(_ESCAPES))
            copy.write("\n")
        cursor.execute(
            "UPDATE rag_file SET canonical_text = (SELECT text FROM rag_canonical) WHERE id = %s",
            [file_id],
        )
        cursor.execute("DROP TABLE rag_canonical")

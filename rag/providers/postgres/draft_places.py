"""Where a draft's chunks lie, and those that are not wanted after all."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection


def draft_places(file_id: int) -> list[tuple[int, int, int]]:
    """Return (ordinal, own_start, char_end) of each row of a file's draft, in order."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT ordinal, (facts->>'own_start')::int, (facts->>'char_end')::int"
            " FROM rag_chunk_draft WHERE file_id = %s ORDER BY ordinal",
            [file_id],
        )
        return list(cursor.fetchall())


def remove_rows(file_id: int, ordinals: Sequence[int]) -> None:
    """Remove rows of a file's draft."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM rag_chunk_draft WHERE file_id = %s AND ordinal = ANY(%s)",
            [file_id, list(ordinals)],
        )

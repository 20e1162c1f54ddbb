"""COPY of a file's canonical text in pieces, so that memory stays flat."""

from __future__ import annotations

from django.db import connection

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

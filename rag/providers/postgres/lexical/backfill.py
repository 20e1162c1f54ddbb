"""Backfill of lexical rows from the texts: only rows that differ are written.

Each batch is a transaction that holds its files and chunks, so a row never says what its chunk
does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from django.db import connection, transaction

from rag.providers.postgres.db.connections import execute
from rag.providers.postgres.lexical.document_frequencies import DELTA_COLUMNS, copy_rows, delta_row
from rag.providers.postgres.lexical.pack_rows import TERM_COLUMNS, TermPack, TermRow

_READ = """
SELECT c.id, c.revision,
  CASE WHEN c.context = '' THEN c.text ELSE c.context || E'\\n' || c.text END, l.xmin,
  l.len, l.is_han, l.w
FROM rag_chunk c LEFT JOIN rag_chunk_lex l ON l.chunk_id = c.id
WHERE c.id = ANY(%s) AND c.is_live ORDER BY c.id
"""
_FILES = """
SELECT FROM rag_file WHERE id IN (SELECT file_id FROM rag_chunk WHERE id = ANY(%s))
ORDER BY id FOR SHARE
"""
_CHUNKS = "SELECT FROM rag_chunk WHERE id = ANY(%s) ORDER BY id FOR SHARE"
# A row that is of another version by now was made anew by somebody else, who counted it.
_UPDATE = """
UPDATE rag_chunk_lex l SET len = n.len, is_han = n.is_han, w = n.w
FROM rag_terms_new n JOIN rag_chunk c ON c.id = n.chunk_id AND c.revision = n.revision AND c.is_live
WHERE l.chunk_id = n.chunk_id AND l.xmin = n.seen
"""
_INSERT = """
INSERT INTO rag_chunk_lex (chunk_id, file_id, store_id, len, enabled, is_han, content_type,
  restricted, w)
SELECT c.id, c.file_id, c.store_id, n.len, c.enabled, n.is_han, c.content_type,
  (SELECT array_agg(group_id ORDER BY group_id) FROM rag_file_restricted_to r
    WHERE r.file_id = c.file_id), n.w
FROM rag_terms_new n JOIN rag_chunk c ON c.id = n.chunk_id AND c.revision = n.revision AND c.is_live
WHERE n.seen IS NULL
ON CONFLICT (chunk_id) DO NOTHING
"""
_ORPHANS = """
SELECT rag_unindex(array_agg(l.chunk_id)) FROM rag_chunk_lex l
WHERE l.store_id = %s AND NOT EXISTS (SELECT FROM rag_chunk c WHERE c.id = l.chunk_id AND c.is_live)
HAVING count(*) > 0
"""


def read_term_rows(chunk_ids: Sequence[int]) -> list[TermRow]:
    """Return the live ones of these chunks with their texts and present rows."""
    # Opens the connection, which is used below as it is, for its binary answers.
    execute("SELECT")
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as raw:
        rows: list[Any] = raw.execute(_READ, [list(chunk_ids)], binary=True).fetchall()
    return list(map(TermRow._make, rows))


def write_terms(store_id: int, pack: TermPack) -> bool:
    """Write rows that differ, and what they change in the statistics.

    False, and nothing is written, when one of them is not any more what it was compared with.
    """
    if not pack.ids:
        return True
    with transaction.atomic(), connection.cursor() as cursor:
        # Merging the index's pending list in pieces takes a fifth more.
        cursor.execute("SET LOCAL work_mem = '64MB'")
        cursor.execute(
            "CREATE TEMP TABLE rag_terms_new (chunk_id bigint, revision int, seen xid, len int,"
            " is_han boolean, w sparsevec) ON COMMIT DROP"
        )
        copy_rows(cursor, "rag_terms_new", TERM_COLUMNS, pack.rows)
        cursor.execute(_FILES, [pack.ids])
        cursor.execute(_CHUNKS, [pack.ids])
        cursor.execute(_UPDATE)
        n_updated = cursor.rowcount
        cursor.execute(_INSERT)
        n_added = cursor.rowcount
        if n_updated + n_added < len(pack.ids):
            transaction.set_rollback(True)
            return False
        if len(pack.keys) or n_added or pack.length:
            change = delta_row(store_id, pack.keys, pack.dn, (n_added, pack.length))
            copy_rows(cursor, "rag_term_delta", DELTA_COLUMNS, change)
        cursor.execute("DROP TABLE rag_terms_new")
        return True


def remove_orphan_terms(store_id: int) -> None:
    """Remove rows of words, and vectors, that no live chunk has."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_ORPHANS, [store_id])

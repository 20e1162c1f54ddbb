"""Rows of words are made anew from the texts. In: a store. Out: rows and statistics that agree.

Only rows that differ are written. Each batch is a transaction that holds its files and chunks, so
a row never says what its chunk does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import psycopg
from django.db import connection, transaction

from rag.providers.postgres.backfill_pack import TERM_COLUMNS, TermPack, TermRow
from rag.providers.postgres.load_tally import copy_rows

_READ = """
SELECT c.id, c.revision,
  CASE WHEN c.context = '' THEN c.text ELSE c.context || E'\\n' || c.text END, l.len, l.is_han, l.w
FROM rag_chunk c LEFT JOIN rag_chunk_lex l ON l.chunk_id = c.id
WHERE c.id = ANY(%s) AND c.is_live ORDER BY c.id
"""
_FILES = """
SELECT FROM rag_file WHERE id IN (SELECT file_id FROM rag_chunk WHERE id = ANY(%s))
ORDER BY id FOR SHARE
"""
# Where somebody changed a chunk meanwhile, that one has made its words.
_STALE = """
DELETE FROM rag_terms_new n WHERE NOT EXISTS (
  SELECT FROM rag_chunk c WHERE c.id = n.chunk_id AND c.revision = n.revision AND c.is_live)
"""
_CHUNKS = "SELECT FROM rag_chunk WHERE id = ANY(%s) ORDER BY id FOR SHARE"
_UPDATE = """
UPDATE rag_chunk_lex l SET len = n.len, is_han = n.is_han, w = n.w FROM rag_terms_new n
WHERE l.chunk_id = n.chunk_id
"""
_INSERT = """
INSERT INTO rag_chunk_lex (chunk_id, file_id, store_id, len, enabled, is_han, content_type,
  restricted, w)
SELECT c.id, c.file_id, c.store_id, n.len, c.enabled, n.is_han, c.content_type,
  (SELECT array_agg(group_id ORDER BY group_id) FROM rag_file_restricted_to r
    WHERE r.file_id = c.file_id), n.w
FROM rag_terms_new n JOIN rag_chunk c ON c.id = n.chunk_id
ON CONFLICT (chunk_id) DO NOTHING
"""
_DELTA = """
INSERT INTO rag_term_delta (store_id, keys, dn, chunks, len) VALUES (%s, %s, %s, %s, %s)
"""
_ORPHANS = """
SELECT rag_unindex(array_agg(l.chunk_id)) FROM rag_chunk_lex l
WHERE l.store_id = %s AND NOT EXISTS (SELECT FROM rag_chunk c WHERE c.id = l.chunk_id AND c.is_live)
HAVING count(*) > 0
"""


def read_term_rows(chunk_ids: Sequence[int]) -> list[TermRow]:
    """Return the live ones of these chunks with their texts and present rows."""
    with connection.cursor() as cursor:
        # Opens the connection, which is used below as it is, for its binary answers.
        cursor.execute("SELECT")
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as raw:
        rows: list[Any] = raw.execute(_READ, [list(chunk_ids)], binary=True).fetchall()
    return [TermRow(*row) for row in rows]


def write_terms(store_id: int, pack: TermPack) -> int:
    """Write rows that differ, and what they change in the statistics; return how many."""
    if not pack.ids:
        return 0
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMP TABLE rag_terms_new (chunk_id bigint, revision int, len int,"
            " is_han boolean, w sparsevec) ON COMMIT DROP"
        )
        copy_rows(cursor, "rag_terms_new", TERM_COLUMNS, pack.rows)
        cursor.execute(_FILES, [pack.ids])
        cursor.execute(_CHUNKS, [pack.ids])
        cursor.execute(f"{_STALE} RETURNING chunk_id")
        gone = {row[0] for row in cursor.fetchall()}
        cursor.execute(_UPDATE)
        n_updated = cursor.rowcount
        cursor.execute(_INSERT)
        n_added = cursor.rowcount
        keep = [at for at, chunk_id in enumerate(pack.ids) if chunk_id not in gone]
        keys, dn = _changes(pack, keep)
        length = sum(pack.lengths[at] for at in keep)
        if len(keys) or n_added or length:
            cursor.execute(_DELTA, [store_id, keys.tolist(), dn.tolist(), n_added, length])
        cursor.execute("DROP TABLE rag_terms_new")
        return int(n_updated + n_added)


def remove_orphan_terms(store_id: int) -> None:
    """Remove rows of words, and vectors, that no live chunk has."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_ORPHANS, [store_id])


def _changes(pack: TermPack, keep: Sequence[int]) -> tuple[Any, Any]:
    lost = [pack.lost[at] for at in keep]
    won = [pack.won[at] for at in keep]
    keys = np.concatenate([*won, *lost]) if keep else np.empty(0, np.int32)
    signs = np.ones(len(keys), np.int64)
    signs[sum(map(len, won)) :] = -1
    unique, places = np.unique(keys, return_inverse=True)
    sums = np.bincount(places, signs, len(unique)).astype(np.int64)
    return unique[sums != 0], sums[sums != 0]

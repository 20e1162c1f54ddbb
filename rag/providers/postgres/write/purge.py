"""Purge of what else holds a deleted text: waiting jobs, logged answers, old query logs."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection, transaction

from rag.core.derived_texts import redact_derived_texts
from rag.providers.postgres.db.connections import execute, fetch_row
from rag.providers.procrastinate_queue import drop_waiting

_SCRUB = """
UPDATE rag_querylog SET answer = '', citations = '[]'
WHERE {which} AND (answer <> '' OR citations <> '[]')
"""
# Answers that would be told again to who repeats a request: few, and made anew then.
_REPEATS = "DELETE FROM rag_repeatablerequest WHERE result -> 'value' -> 'citations' IS NOT NULL"
_OF_CHUNKS = "chunk_ids && %s::bigint[]"
_CHUNKS = "SELECT coalesce(array_agg(id), '{{}}') FROM rag_chunk WHERE {}"
_OLD = """
DELETE FROM rag_querylog WHERE id IN (
  SELECT id FROM rag_querylog WHERE created_at < now() - %s * interval '1 day' LIMIT %s)
"""


def purge_file_traces(file_ids: Sequence[int]) -> list[int]:
    """Remove files' waiting jobs; return their chunks, whose own traces go when they are gone."""
    drop_waiting([f"file:{file_id}" for file_id in file_ids])
    chunk_ids: list[int] = fetch_row(_CHUNKS.format("file_id = ANY(%s)"), [list(file_ids)])[0]
    return chunk_ids


def purge_chunk_traces(chunk_ids: Sequence[int]) -> None:
    """Remove what was answered from deleted chunks, wherever it is kept; the questions stay.

    In the transaction of the deletion and after it, so that no answer is added meanwhile.
    """
    if not chunk_ids:
        return
    with transaction.atomic(), connection.cursor() as cursor:
        # The planner takes each answer for a match, and would compare all of them with all chunks.
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(_SCRUB.format(which=_OF_CHUNKS), [list(chunk_ids)])
        redact_derived_texts(chunk_ids)
        cursor.execute("SET LOCAL enable_seqscan = on")
        cursor.execute(_REPEATS)


def merge_pending_hits() -> None:
    """Merge what was logged lately into the index of hits: a deletion compares all of the rest."""
    execute("SELECT gin_clean_pending_list('rag_querylog_chunks')")


def purge_store_traces(store_id: int, file_ids: Sequence[int]) -> list[int]:
    """Remove a store's waiting jobs and logged answers that it had a part in; return its chunks."""
    drop_waiting([f"file:{file_id}" for file_id in file_ids])
    execute(_SCRUB.format(which="%s = ANY(store_ids)"), [store_id])
    execute(_REPEATS)
    chunk_ids: list[int] = fetch_row(_CHUNKS.format("store_id = %s"), [store_id])[0]
    return chunk_ids


def delete_old_query_rows(older_than_days: int, at_once: int) -> int:
    """Delete so many of the log's rows at most that are older; return how many."""
    return execute(_OLD, [older_than_days, at_once])

"""Outbox switch: enable or disable its triggers, enqueue chunks, and read its lag."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection

from rag.providers.postgres.db.connections import execute, fetch_row

# More are not counted: the count would cost more than it tells.
COUNTED = 100_000
_STATE = f"""
SELECT (SELECT bool_and(tgenabled <> 'D') FROM pg_trigger WHERE tgname = 'rag_outbox'
    AND tgrelid IN ('rag_chunk_vec'::regclass, 'rag_chunk_lex'::regclass)),
  (SELECT count(*) FROM (SELECT FROM rag_outbox WHERE fed_at IS NULL LIMIT {COUNTED}) x),
  (SELECT extract(epoch FROM clock_timestamp() - at) FROM rag_outbox WHERE fed_at IS NULL
    ORDER BY id LIMIT 1)
"""
_ALL_WORDS = "INSERT INTO rag_outbox (space_id, chunk_id) SELECT 0, chunk_id FROM rag_chunk_lex"
_ALL_VECTORS = """
INSERT INTO rag_outbox (space_id, chunk_id) SELECT space_id, chunk_id FROM rag_chunk_vec
"""
_SOME = "INSERT INTO rag_outbox (space_id, chunk_id) SELECT %s, unnest(%s::bigint[])"


@dataclass(frozen=True, slots=True)
class OutboxState:
    """Whether changes are noted, how many wait (counted up to ``COUNTED``), the oldest's age."""

    is_on: bool
    n_waiting: int
    lag_s: float


def outbox_state() -> OutboxState:
    """Return how far behind the engine is."""
    is_on, n_waiting, lag_s = fetch_row(_STATE)
    return OutboxState(bool(is_on), int(n_waiting), float(lag_s or 0))


def enable_outbox(is_on: bool) -> None:
    """Let the triggers note each change from this commit on, or never again."""
    how = "ENABLE" if is_on else "DISABLE"
    with connection.cursor() as cursor:
        for table in ("rag_chunk_vec", "rag_chunk_lex"):
            cursor.execute(f"ALTER TABLE {table} {how} TRIGGER rag_outbox")


def enqueue_all() -> int:
    """Note every vector and every chunk's words as changed; return how many."""
    with connection.cursor() as cursor:
        cursor.execute(_ALL_WORDS)
        n_words = cursor.rowcount
        cursor.execute(_ALL_VECTORS)
        return int(n_words + cursor.rowcount)


def enqueue_chunks(space_id: int, chunk_ids: list[int]) -> None:
    """Note these chunks of a space (0: their words) as changed."""
    execute(_SOME, [space_id, chunk_ids])

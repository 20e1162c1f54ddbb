"""Outbox: its triggers on or off, its pending rows, and one consumer at a time by a lock.

Rows may become visible in another order than their ids say, so each is marked by its own id and
never by a highest one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from django.db import connection

from rag.providers.postgres.db.connections import execute, fetch_row, fetch_rows

# Longer than the engine lets a reader see an older state (Milvus: 5 s), so that no search falls
# between the row that is gone and the copy that it does not see yet.
SETTLE_S = 15
_WAITING = """
SELECT id, space_id, chunk_id FROM rag_outbox WHERE fed_at IS NULL ORDER BY id LIMIT %s
"""
_FED = "UPDATE rag_outbox SET fed_at = clock_timestamp() WHERE id = ANY(%s)"
_FORGET = f"""
DELETE FROM rag_outbox WHERE fed_at < clock_timestamp() - interval '{SETTLE_S} s'
"""
_RECENT = "SELECT chunk_id FROM rag_outbox WHERE space_id = %s ORDER BY id DESC LIMIT %s"
_KEY = "hashtextextended('rag_outbox', 0)"


@dataclass(frozen=True, slots=True)
class PendingRows:
    """Rows that wait for their copy: their ids, and the chunks by space (0: their words)."""

    row_ids: list[int]
    chunks: dict[int, list[int]]


def read_pending(limit: int) -> PendingRows:
    """Return the oldest ``limit`` rows that wait; each chunk once a space."""
    rows = fetch_rows(_WAITING, [limit])
    chunks: dict[int, dict[int, None]] = {}
    for _, space_id, chunk_id in rows:
        chunks.setdefault(space_id, {})[chunk_id] = None
    return PendingRows(
        [row[0] for row in rows], {space: list(ids) for space, ids in chunks.items()}
    )


def mark_fed(row_ids: Sequence[int]) -> None:
    """Note that the engine has the chunks as they are since after these rows were read."""
    execute(_FED, [list(row_ids)])


def purge_fed() -> int:
    """Remove rows whose copy every search sees by now; return how many."""
    return execute(_FORGET)


def recent_changes(space_id: int, limit: int) -> list[int]:
    """Return the chunks of the latest ``limit`` changes, which a search may not see in the copy.

    One that changed twice is there twice: fewer than ``limit`` are all that there are.
    """
    return [row[0] for row in fetch_rows(_RECENT, [space_id, limit])]


@contextmanager
def outbox_lock(*, is_waiting: bool) -> Iterator[bool]:
    """Be the only one who feeds while the block runs; False: somebody else is, and goes on.

    ``is_waiting`` waits for them instead. By a connection of its own: the pool's are given back
    while the engine works, and the lock of who dies ends with it.
    """
    how = "pg_advisory_lock" if is_waiting else "pg_try_advisory_lock"
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as own:
        row = own.execute(f"SELECT {how}({_KEY})").fetchone()
        # The waiting one returns nothing, and returns at all only when the lock is there.
        yield is_waiting or bool(row and row[0])


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

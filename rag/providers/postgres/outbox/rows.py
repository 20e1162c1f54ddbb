"""Outbox rows: read pending ones, mark them fed, purge them; one consumer at a time by a lock.

Rows may become visible in another order than their ids say, so each is marked by its own id and
never by a highest one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from django.db import connection

from rag.providers.postgres.db.connections import execute, fetch_rows

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

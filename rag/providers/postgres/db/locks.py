"""Who waits for whom. In: stores and files. Out: locks, until the commit or the end of a block.

One order for all, so that nobody waits in a circle: store, its files, their chunks, index rows,
and statistics; ``hold_stores`` for statistics alone may come after index rows, since those who
delete a store take it first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from django.db import DatabaseError, InterfaceError, OperationalError, connection

_KEY = "hashtextextended('rag_file:' || %s, 0)"


@contextmanager
def holding_file(file_id: int) -> Iterator[None]:
    """Hold the file for this connection; raise OperationalError while another one holds it.

    A worker that was silent for too long, not dead, goes on with a job that came back. The lock
    ends with its connection, so a dead worker holds nothing.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_try_advisory_lock({_KEY})", [file_id])
        if not cursor.fetchone()[0]:
            raise OperationalError(f"file {file_id} is in the hands of another worker")
    try:
        yield
    finally:
        # What lost its connection has lost the lock with it.
        with suppress(DatabaseError, InterfaceError), connection.cursor() as cursor:
            cursor.execute(f"SELECT pg_advisory_unlock({_KEY})", [file_id])


def keep_store(store_id: int) -> bool:
    """Keep a store from being deleted; return False when it is gone."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM rag_store WHERE id = %s FOR KEY SHARE", [store_id])
        return bool(cursor.rowcount)


def hold_stores(store_ids: Sequence[int]) -> None:
    """Keep others from changing these stores and their statistics."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT FROM rag_store WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE",
            [list(store_ids)],
        )

"""Locks of stores and files, until the commit or the end of a block.

One order for all, so that there is no deadlock: store, its files, their chunks, index rows, and
statistics; ``lock_stores`` for statistics alone may come after index rows, since those who delete
a store take it first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from django.db import DatabaseError, InterfaceError, OperationalError, connection

from rag import models
from rag.core.errors import NotFoundError
from rag.providers.postgres.db.connections import execute, fetch_row

_KEY = "hashtextextended('rag_file:' || %s, 0)"


@contextmanager
def file_lock(file_id: int) -> Iterator[None]:
    """Hold the file for this connection; raise OperationalError while another one holds it.

    A worker that was silent for too long, not dead, goes on with a job that came back. The lock
    ends with its connection, so a dead worker holds nothing.
    """
    if not fetch_row(f"SELECT pg_try_advisory_lock({_KEY})", [file_id])[0]:
        raise OperationalError(f"file {file_id} is in the hands of another worker")
    try:
        yield
    finally:
        # What lost its connection has lost the lock with it.
        with suppress(DatabaseError, InterfaceError), connection.cursor() as cursor:
            cursor.execute(f"SELECT pg_advisory_unlock({_KEY})", [file_id])


def lock_store_shared(store_id: int) -> bool:
    """Keep a store from being deleted; return False when it is gone."""
    return bool(execute("SELECT FROM rag_store WHERE id = %s FOR KEY SHARE", [store_id]))


def lock_stores(store_ids: Sequence[int]) -> None:
    """Keep others from changing these stores and their statistics."""
    execute(
        "SELECT FROM rag_store WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", [list(store_ids)]
    )


def lock_file(*, file_id: int, store_id: int) -> models.File:
    """Return the file, held until the end of the caller's transaction; NotFoundError when gone.

    The store, its file, then chunks: in the order of all who change them.
    """
    files = models.File.objects.light().select_for_update(no_key=True).filter(pk=file_id)
    file = files.first() if lock_store_shared(store_id) else None
    if file is None:
        raise NotFoundError("The file was deleted meanwhile.")
    return file

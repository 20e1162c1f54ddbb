"""Advisory lock of a reindex run, and the UPDATE that switches a store to another space."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import OperationalError, connection

from rag.providers.postgres.vectors.backfill import chunks_without_vector

_KEY = "hashtextextended('rag_reindex_run:' || %s, 0)"


@contextmanager
def reindex_lock(run_id: int) -> Iterator[None]:
    """Hold a run while the block runs; raise OperationalError while another one holds it.

    By a connection of its own: the pool's are given back while models work. Who dies holds
    nothing any more, for the lock ends with its connection.
    """
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as own:
        row = own.execute(f"SELECT pg_try_advisory_lock({_KEY})", [run_id]).fetchone()
        if row is None or not row[0]:
            raise OperationalError(f"reindex run {run_id} is in the hands of another process")
        yield


def switch_space(store_id: int, source_id: int, target_id: int) -> int:
    """Let a store stand on ``target_id``; return how many chunks still lack a vector there.

    Nothing is changed unless that is 0. Must run in a transaction. Searches go on meanwhile;
    writers of the store wait, and whoever prepared vectors for the old space learns it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT space_id FROM rag_store WHERE id = %s FOR UPDATE", [store_id])
        row = cursor.fetchone()
        if row is None or row[0] != source_id:
            return 0
        if n_missing := len(chunks_without_vector(target_id, store_id)):
            return n_missing
        cursor.execute("UPDATE rag_store SET space_id = %s WHERE id = %s", [target_id, store_id])
        return 0

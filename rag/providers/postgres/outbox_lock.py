"""One feeds at a time. In: to wait for others or not. Out: whether it is one's turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import connection

_KEY = "hashtextextended('rag_outbox', 0)"


@contextmanager
def holding_outbox(*, is_waiting: bool) -> Iterator[bool]:
    """Be the only one who feeds while the block runs; False: somebody else is, and goes on.

    ``is_waiting`` waits for them instead. By a connection of its own: the pool's are given back
    while the engine works, and the lock of who dies ends with it.
    """
    how = "pg_advisory_lock" if is_waiting else "pg_try_advisory_lock"
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as own:
        row = own.execute(f"SELECT {how}({_KEY})").fetchone()
        # The waiting one returns nothing, and returns at all only when the lock is there.
        yield is_waiting or bool(row and row[0])

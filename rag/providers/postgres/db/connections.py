"""Connection release: gives pooled connections back before something slow."""

from __future__ import annotations

from django.db import connections


def release_db() -> None:
    """Return this thread's connections to the pool, unless a transaction holds them.

    A request keeps its connection until the response ends; before a model call or a stream that
    would starve everybody else.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()

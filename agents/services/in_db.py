"""Database work from async code. In: a function. Out: its result, and no connection kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections

P = ParamSpec("P")
R = TypeVar("R")


async def in_db(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what ``work`` returns; its thread's connections go back to the pool at once.

    A run lasts as long as its models take: whoever kept a connection would starve the others.
    """

    def released() -> R:
        try:
            return work(*args, **kwargs)
        finally:
            release()

    return await sync_to_async(released)()


def release() -> None:
    """Return this thread's connections to the pool, unless a transaction holds them."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()

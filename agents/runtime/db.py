"""Database access from async code: runs a function in Django's thread and releases connections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError, connections

P = ParamSpec("P")
R = TypeVar("R")
# For so long a database that is gone is asked again, shorter than a run is held for abandoned.
PATIENCE_S, AGAIN_S = 15.0, 0.2
log = logging.getLogger(__name__)


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


async def in_db_patiently(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Do as ``in_db``; a database that is gone for a moment is asked again until it is back.

    Raises what it said last after 15 seconds. ``work`` may have been committed although its answer
    was lost: it must bear being done twice.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE_S
    while True:
        try:
            return await in_db(work, *args, **kwargs)
        except (OperationalError, InterfaceError) as error:
            if loop.time() >= until:
                raise
            # What the database says may quote a row.
            log.warning("the database is asked again: %s", type(error).__name__)
        await asyncio.sleep(AGAIN_S)


def release() -> None:
    """Return this thread's connections to the pool, unless a transaction holds them."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()

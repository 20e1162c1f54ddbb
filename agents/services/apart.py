"""Blocking work of answers that outlive their request. In: a function. Out: its result.

On threads of its own: those of a request end with it. Rows are written by few threads that nothing
slow can take; searches have others, and what waits for somebody else's servers has its own again:
pages and tools that hang delay nobody's search.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from agents.services.in_db import release

P = ParamSpec("P")
R = TypeVar("R")
_ROWS = ThreadPoolExecutor(4, "chat-rows")
_WORK = ThreadPoolExecutor(24, "chat-work")
_WAITS = ThreadPoolExecutor(32, "chat-waits")


async def in_rows(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what short database work returns; its connection goes back to the pool at once."""
    return await _on(_ROWS, lambda: work(*args, **kwargs))


async def in_threads(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what slower work returns, such as a search; cancelling only stops the waiting."""
    return await _on(_WORK, lambda: work(*args, **kwargs))


async def in_waits(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what work returns whose time is in nobody's hand here; else as ``in_threads``."""
    return await _on(_WAITS, lambda: work(*args, **kwargs))


async def _on(threads: ThreadPoolExecutor, work: Callable[[], R]) -> R:
    def released() -> R:
        try:
            return work()
        finally:
            release()

    return await sync_to_async(released, thread_sensitive=False, executor=threads)()

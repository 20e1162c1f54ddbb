"""Thread pools for blocking work that outlives its request: database, search, external calls.

The pools are apart so that a tool that hangs delays no search and nothing slow delays a write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from agents.runtime.db import release
from rag.core.deadline import Deadline
from rag.core.errors import ProviderTimeoutError
from rag.services.sources import run_apart as run_apart_source_threads

P = ParamSpec("P")
R = TypeVar("R")
_ROWS = ThreadPoolExecutor(4, "chat-rows")
_WORK = ThreadPoolExecutor(24, "chat-work")
_WAITS = ThreadPoolExecutor(32, "chat-waits")


async def run_db(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what short database work returns; its connection goes back to the pool at once."""
    return await _on(_ROWS, lambda: work(*args, **kwargs))


async def run_blocking(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what slower work returns, such as a search; cancelling only stops the waiting."""
    return await _on(_WORK, lambda: work(*args, **kwargs))


async def run_external(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what work returns whose time is in nobody's hand here; else as ``run_blocking``."""
    return await _on(_WAITS, lambda: work(*args, **kwargs))


async def _on(threads: ThreadPoolExecutor, work: Callable[[], R]) -> R:
    def released() -> R:
        try:
            return work()
        finally:
            release()

    return await sync_to_async(released, thread_sensitive=False, executor=threads)()


_THREADS = ThreadPoolExecutor(64, "flow")


async def run_apart(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what ``work`` returns; its thread's connections go back to the pool."""

    def released() -> R:
        try:
            return work(*args, **kwargs)
        finally:
            release()

    return await sync_to_async(released, thread_sensitive=False, executor=_THREADS)()


async def wait_until_deadline(
    work: Callable[[], R], *, name: str, deadline: Deadline
) -> asyncio.Future[R]:
    """Return the future of ``work``, done; raise ProviderTimeoutError when the time is over.

    Work that nobody waits for any more, also by cancelling, learns it from the deadline. ``name``
    is that of the tool that works.
    """
    waiting: asyncio.Future[R] | None = None
    try:
        waiting = asyncio.wrap_future(
            await run_external(run_apart_source_threads, work, deadline=deadline)
        )
        # What comes too late is nobody's any more.
        waiting.add_done_callback(lambda late: late.cancelled() or late.exception())
        await asyncio.wait({waiting}, timeout=deadline.remaining_s)
        if not waiting.done():
            raise ProviderTimeoutError(
                "The tool {name} did not answer within {timeout_s} s.",
                hint="Try again, or allow more time.",
                name=name,
                timeout_s=f"{deadline.timeout_s:g}",
            )
        return waiting
    finally:
        if waiting is None or not waiting.done():
            # The thread works on until it looks at the clock; what wakes it may take a while.
            asyncio.get_running_loop().run_in_executor(None, deadline.cancel)

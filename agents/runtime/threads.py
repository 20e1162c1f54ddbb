"""Blocking work of answers that outlive their request. In: a function. Out: its result.

On threads of its own: those of a request end with it. Rows are written by few threads that nothing
slow can take; searches have others, and what waits for somebody else's servers has its own again:
pages and tools that hang delay nobody's search.

Slow work of flows on threads of its own. In: a function. Out: its result.
Work on a thread of its own, waited for in its time. In: work, a deadline. Out: its future.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from agents.runtime.db import release
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import ProviderTimeoutError
from rag.core.tools import call_tool
from rag.services.plugins import make_plugin
from rag.services.sources.ports import HousePorts
from rag.services.sources.threads import run_apart as run_apart_source_threads

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


_THREADS = ThreadPoolExecutor(64, "flow")


async def run_apart(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what ``work`` returns; its thread's connections go back to the pool."""

    def released() -> R:
        try:
            return work(*args, **kwargs)
        finally:
            release()

    return await sync_to_async(released, thread_sensitive=False, executor=_THREADS)()


def run_tool(
    *, name: str, arguments: Mapping[str, Any], scope: Scope, deadline: Deadline
) -> dict[str, Any]:
    """Return a tool plugin's answer; raise UnknownNameError, InvalidInputError, ProviderError."""
    tool = make_plugin(kind="tool", name=name)
    return call_tool(tool, arguments, scope=scope, deadline=deadline, ports=HousePorts())


async def waited(work: Callable[[], R], *, name: str, deadline: Deadline) -> asyncio.Future[R]:
    """Return the future of ``work``, done; raise ProviderTimeoutError when the time is over.

    Work that nobody waits for any more, also by cancelling, learns it from the deadline. ``name``
    is that of the tool that works.
    """
    waiting: asyncio.Future[R] | None = None
    try:
        waiting = asyncio.wrap_future(
            await in_waits(run_apart_source_threads, work, deadline=deadline)
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

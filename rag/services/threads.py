"""Threads and deadlines: runs blocking work off the event loop, in pools or in a daemon thread.

The pools are apart so that a tool that hangs delays no search and nothing slow delays a write. All
but a request's own thread outlive the request; each returns its database connections at once.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError, connections
from django.utils.translation import get_language, override

from rag.core.deadline import Deadline
from rag.core.errors import LimitError, ProviderTimeoutError
from rag.providers.postgres.db.connections import release_db as release_db

P = ParamSpec("P")
R = TypeVar("R")
_DB = ThreadPoolExecutor(6, "db")
_BLOCKING = ThreadPoolExecutor(24, "blocking")
_EXTERNAL = ThreadPoolExecutor(96, "external")
# For so long a database that is gone is asked again, shorter than a lease.
RETRY_S, PAUSE_S = 15.0, 0.2
MAX_DETACHED = 64
_detached_slots = threading.BoundedSemaphore(MAX_DETACHED)
log = logging.getLogger(__name__)


async def run_thread_sensitive(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what database work returns, on the one thread of this context: that of its request,
    or of the sync caller, with the transaction that is open there.

    The connection goes back to the pool: a stream that kept one would starve the others.
    """

    def call() -> R:
        return _released(lambda: work(*args, **kwargs))

    return await sync_to_async(call)()


async def run_db(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what short database work returns."""
    return await _run(_DB, lambda: work(*args, **kwargs))


async def retry_db(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Do as ``run_thread_sensitive``; a database that is gone for a moment is asked again.

    Raises its last error after 15 seconds. ``work`` may have been committed although its answer was
    lost: it must bear being done twice.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + RETRY_S
    while True:
        try:
            return await run_thread_sensitive(work, *args, **kwargs)
        except (OperationalError, InterfaceError) as error:
            if loop.time() >= until:
                raise
            # What the database says may quote a row.
            log.warning("the database is asked again: %s", type(error).__name__)
        await asyncio.sleep(PAUSE_S)


async def run_blocking(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what slower work returns, such as a search; cancelling only stops the waiting."""
    return await _run(_BLOCKING, lambda: work(*args, **kwargs))


async def run_external(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what work returns that waits for other servers, for a time nobody here controls."""
    return await _run(_EXTERNAL, lambda: work(*args, **kwargs))


async def run_until(work: Callable[[], R], *, name: str, deadline: Deadline) -> asyncio.Future[R]:
    """Return the future of ``work``, done; raise ProviderTimeoutError when the time is over.

    Work that nobody waits for any more, also by cancelling, learns it from the deadline. ``name``
    is that of the tool that works.
    """
    waiting: asyncio.Future[R] | None = None
    try:
        waiting = asyncio.wrap_future(await run_external(start_detached, work, deadline=deadline))
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


def start_detached(work: Callable[[], R], *, deadline: Deadline) -> Future[R]:
    """Return the future of ``work``, which runs on a daemon thread that nobody has to wait for.

    It has the caller's context and language. Where all threads are taken it waits for one until
    the deadline; then the future has a LimitError. Python cannot stop a thread: work that hangs
    must not keep the process from ending.
    """
    future: Future[R] = Future()
    slots = _detached_slots
    if not slots.acquire(timeout=deadline.remaining_s):
        future.set_exception(
            LimitError(
                "All {n} threads for sources are taken.",
                hint="Some source hangs: the log names it. Try again, or restart the server.",
                n=MAX_DETACHED,
            )
        )
        return future
    context, language = contextvars.copy_context(), get_language()

    def as_the_caller() -> R:
        # Django's active language does not go along with the context.
        with override(language):
            return work()

    thread = _Detached(lambda: context.run(as_the_caller), future, slots)
    thread.start()
    return future


class _Detached(threading.Thread, Generic[R]):
    """Fulfils the future with what the work returns or raises, whatever that is."""

    def __init__(
        self, work: Callable[[], R], future: Future[R], slots: threading.Semaphore
    ) -> None:
        super().__init__(daemon=True, name="detached")
        self._work, self._future, self._slots = work, future, slots

    def run(self) -> None:
        with self:
            self._result = self._work()

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        try:
            connections.close_all()
        finally:
            self._slots.release()
            # False: whoever waited has given up.
            if self._future.set_running_or_notify_cancel():
                if error is None:
                    self._future.set_result(self._result)
                else:
                    self._future.set_exception(error)
        return True


async def _run(threads: ThreadPoolExecutor, work: Callable[[], R]) -> R:
    return await sync_to_async(_released, thread_sensitive=False, executor=threads)(work)


def _released(work: Callable[[], R]) -> R:
    try:
        return work()
    finally:
        release_db()

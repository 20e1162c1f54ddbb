"""Request threads: blocking work of a request runs on one thread, kept for a later request.

asgiref starts a thread for each request, and another to wait for its end; with both goes Django's
connection object. That took longer than the rights, the cache and the log of a search together.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext

# More than a process can have busy; after a rush of streams the rest ends.
MAX_IDLE = 32


class RequestThread(ThreadPoolExecutor):
    """One thread that works off what one request hands it, in order."""

    def __init__(self) -> None:
        super().__init__(max_workers=1, thread_name_prefix="request")
        self._last: Future[Any] | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queue work behind what was handed in before."""
        self._last = super().submit(fn, *args, **kwargs)
        return self._last

    @property
    def is_idle(self) -> bool:
        """Return whether all work is done: what was handed in last is done last."""
        return self._last is None or self._last.done()


_idle: deque[RequestThread] = deque()
# Threads do not survive a fork: the child would wait for them for ever.
os.register_at_fork(after_in_child=lambda: _idle.clear())


class RequestThreadContext(ThreadSensitiveContext):
    """asgiref's context of a request, on a thread that may have served others before.

    A task that outlives the request gets a thread of its own, as with asgiref; work that is still
    running keeps its thread, which ends with it.
    """

    async def __aenter__(self) -> RequestThreadContext:
        """Take a thread, the one that was used last: its connection object is warm."""
        await super().__aenter__()  # type: ignore[no-untyped-call]
        if self.token:
            try:
                thread = _idle.pop()
            except IndexError:
                thread = RequestThread()
            SyncToAsync.context_to_thread_executor[self] = thread
        return self

    async def __aexit__(
        self,
        exc: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Give the thread back."""
        if self.token:
            thread = SyncToAsync.context_to_thread_executor.pop(self)
            if isinstance(thread, RequestThread) and thread.is_idle and len(_idle) < MAX_IDLE:
                _idle.append(thread)
            else:
                thread.shutdown(wait=False)
        await super().__aexit__(exc, value, tb)  # type: ignore[no-untyped-call]

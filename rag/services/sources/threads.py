"""Work on a thread of its own that nobody has to wait for. In: work. Out: a future of its result.

Daemon threads: Python cannot stop one, and work that hangs must not keep the process from ending.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Generic, TypeVar

from django.db import connections
from django.utils.translation import get_language, override

from rag.core.deadline import Deadline
from rag.core.errors import LimitError

R = TypeVar("R")
MAX_THREADS = 64
_places = threading.BoundedSemaphore(MAX_THREADS)


def run_apart(work: Callable[[], R], *, deadline: Deadline) -> Future[R]:
    """Return the future of ``work``, which runs in the caller's context and language.

    Where all threads are taken it waits for one until the deadline; then the future has a
    LimitError.
    """
    future: Future[R] = Future()
    if not _places.acquire(timeout=deadline.remaining_s):
        future.set_exception(
            LimitError(
                "All {n} threads for sources are taken.",
                hint="Some source hangs: the log names it. Try again, or restart the server.",
                n=MAX_THREADS,
            )
        )
        return future
    context, language = contextvars.copy_context(), get_language()

    def as_the_caller() -> R:
        # Django's active language does not go along with the context.
        with override(language):
            return work()

    _Thread(lambda: context.run(as_the_caller), future, _places).start()
    return future


class _Thread(threading.Thread, Generic[R]):
    """Fulfils the future with what the work returns or raises, whatever that is."""

    def __init__(
        self, work: Callable[[], R], future: Future[R], places: threading.Semaphore
    ) -> None:
        super().__init__(daemon=True, name="source")
        self._work, self._future, self._places = work, future, places

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
            self._places.release()
            # False: whoever waited has given up.
            if self._future.set_running_or_notify_cancel():
                if error is None:
                    self._future.set_result(self._result)
                else:
                    self._future.set_exception(error)
        return True

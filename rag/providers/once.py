"""Lazy singletons per process, safe after a fork."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Once(Generic[T]):
    """Calls ``make`` at the first ``get`` and keeps the result; safe with threads and forks.

    A recipe that raises is tried again by the next caller.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []
        self._lock = threading.Lock()
        _renew_lock_after_fork(self)

    def get(self) -> T:
        """Return the thing, made if need be; other threads wait for it."""
        if not self._made:
            with self._lock:
                if not self._made:
                    self._made.append(self._make())
        return self._made[0]


class TextThreads:
    """Runs one function over many texts on ``size`` threads of this process; None: one a core."""

    def __init__(self, size: int | None = None) -> None:
        self.size = size or _n_cores()
        self._pool: ThreadPoolExecutor | None = None
        self._pid = 0
        self._lock = threading.Lock()
        _renew_lock_after_fork(self)

    def map(self, work: Callable[[str], R], texts: Sequence[str]) -> list[R]:
        """Return ``work`` of each text in order; the first error is raised."""
        if len(texts) < 2 or self.size == 1:
            return [work(text) for text in texts]
        return list(self._current().map(work, texts))

    def _current(self) -> ThreadPoolExecutor:
        # Threads do not survive a fork, their pool object does.
        with self._lock:
            if self._pool is None or self._pid != os.getpid():
                self._pool = ThreadPoolExecutor(self.size, thread_name_prefix="embed")
                self._pid = os.getpid()
            return self._pool


def _n_cores() -> int:
    # macOS has no affinity.
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)


def _renew_lock_after_fork(owner: Once[T] | TextThreads) -> None:
    # Another thread of the parent may have held the lock; nobody would ever free it in the child.
    reference = weakref.ref(owner)

    def renew() -> None:
        found = reference()
        if found is not None:
            found._lock = threading.Lock()

    os.register_at_fork(after_in_child=renew)

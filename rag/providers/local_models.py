"""What models that run here share: lazy singletons, threads, windows of tokens, unit vectors."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

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


Vector = NDArray[np.float32]
Span = tuple[int, int]

# One for one, so that positions stay: C code reads NUL as an end, and half of a surrogate pair
# cannot be encoded.
_CLEAN = {0: " ", **dict.fromkeys(range(0xD800, 0xE000), "\ufffd")}


def sendable_characters(text: str) -> str:
    """Return ``text`` without NUL and lone surrogates, each character at its place."""
    return text.translate(_CLEAN)


def average_windows(
    embed: Callable[[str], Vector], text: str, spans: Sequence[Span], size: int
) -> Vector:
    """Return the mean of the vectors of windows of ``size`` tokens, weighed by length; length 1.

    ``spans`` are the tokens' places in ``text``; a text of fewer tokens is one window, so nothing
    is ever cut.
    """
    if len(spans) <= size:
        return unit_vector(embed(text))
    parts = [spans[at : at + size] for at in range(0, len(spans), size)]
    vectors = [len(part) * embed(text[part[0][0] : part[-1][1]]) for part in parts]
    return unit_vector(np.sum(vectors, axis=0))


def unit_vector(vector: Vector) -> Vector:
    """Return ``vector`` at length 1 as float32; a vector of zeros stays as it is."""
    length = float(np.sqrt(vector @ vector))
    return (vector / max(length, 1e-12)).astype(np.float32)

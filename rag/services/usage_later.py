"""Calls made on threads for somebody who waits. In: calls. Out: rows, written by who waits.

A thread that is late writes its own row: what was paid for is kept in any case.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rag.services.record_usage import Call, record_call


class Later:
    """Calls that wait to be written; after ``close`` none waits any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[Call] | None = []

    def add(self, call: Call) -> None:
        """Keep a call, or write it at once when nobody waits."""
        with self._lock:
            if self._calls is not None:
                self._calls.append(call)
                return
        record_call(call=call)

    def close(self) -> None:
        """Write all that is kept."""
        with self._lock:
            calls, self._calls = self._calls or [], None
        for call in calls:
            record_call(call=call)


_LATER: ContextVar[Later | None] = ContextVar("citable_later", default=None)


def keep_call(call: Call) -> None:
    """Write a call's row now, or leave it to whoever waits for the work at hand."""
    later = _LATER.get()
    if later is None:
        record_call(call=call)
    else:
        later.add(call)


@contextmanager
def written_here() -> Iterator[None]:
    """Write what threads with a copy of this context have called, at the end, on this thread."""
    later = Later()
    token = _LATER.set(later)
    try:
        yield
    finally:
        _LATER.reset(token)
        later.close()

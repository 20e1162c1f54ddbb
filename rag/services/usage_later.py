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

    @property
    def is_open(self) -> bool:
        """Return whether calls wait here."""
        return self._calls is not None

    def add(self, call: Call) -> None:
        """Keep a call, or write it at once when nobody waits."""
        with self._lock:
            if self._calls is not None:
                self._calls.append(call)
                return
        record_call(call=call)

    def take(self, *, is_last: bool = False) -> list[Call]:
        """Return the calls that wait; whoever takes them writes them, or adds them again.

        After ``is_last`` none waits any more.
        """
        with self._lock:
            calls = self._calls or []
            self._calls = None if is_last or self._calls is None else []
        return calls

    def write(self) -> None:
        """Write all that wait."""
        for call in self.take():
            record_call(call=call)

    def close(self) -> None:
        """Write all that wait; later ones are written at once."""
        for call in self.take(is_last=True):
            record_call(call=call)


_LATER: ContextVar[Later | None] = ContextVar("citable_later", default=None)


def keep_call(call: Call) -> None:
    """Write a call's row now, or leave it to whoever waits for the work at hand."""
    later = _LATER.get()
    if later is None:
        record_call(call=call)
    else:
        later.add(call)


def written_by(later: Later) -> None:
    """Leave the calls of the rest of this context, such as a task's own, to whoever takes them."""
    _LATER.set(later)


def waiting_here() -> Later | None:
    """Return where the calls of this context wait; None where each is written at once."""
    later = _LATER.get()
    return later if later is not None and later.is_open else None


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

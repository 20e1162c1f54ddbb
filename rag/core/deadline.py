"""Deadline and cancellation of one call, shared by everything that the call does.

Python cannot stop a thread: whoever blocks calls ``check`` between its steps, passes
``remaining_s`` to what it calls, and registers with ``on_cancel`` what would wake it up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rag.core.errors import CancelledError, ProviderTimeoutError


class Deadline:
    """A moment until which one call may run, shared by all its parts; cancelled at most once."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._wakers: list[Callable[[], None]] = []

    @property
    def remaining_s(self) -> float:
        """Return the seconds that are left, never less than 0."""
        return max(0.0, self._end - time.monotonic())

    @property
    def is_cancelled(self) -> bool:
        """Return whether nobody waits any more."""
        return self._is_cancelled

    def check(self) -> None:
        """Raise CancelledError when nobody waits, ProviderTimeoutError when the time is over."""
        if self._is_cancelled:
            raise CancelledError("The call was cancelled.")
        if not self.remaining_s:
            raise ProviderTimeoutError(
                "There was no answer within {timeout_s} s.",
                hint="Try again, or allow more time.",
                timeout_s=f"{self.timeout_s:g}",
            )

    def cancel(self) -> None:
        """Say that nobody waits, and wake up what registered with ``on_cancel``."""
        with self._lock:
            wakers, self._wakers = self._wakers, []
            self._is_cancelled = True
        for wake in wakers:
            wake()

    @contextmanager
    def on_cancel(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call ``wake`` from another thread should the call be cancelled inside the block."""
        with self._lock:
            is_late = self._is_cancelled
            if not is_late:
                self._wakers.append(wake)
        if is_late:
            self.check()
        try:
            yield
        finally:
            with self._lock:
                if wake in self._wakers:
                    self._wakers.remove(wake)

"""Circuit breaker: leaves a failing service alone, then lets one call through as a probe."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class CircuitBreaker:
    """Refuses calls for ``open_s`` seconds after a failure, then lets one through as a probe.

    While the probe is out all others are refused; it closes the breaker, or opens it anew.
    """

    def __init__(
        self, *, open_s: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.open_s = open_s
        self._clock = clock
        self._lock = threading.Lock()
        self._retry_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Return whether the last call failed."""
        return self._retry_at is not None

    def allows(self) -> bool:
        """Return whether to call now; who is allowed tells how it ended."""
        if self._retry_at is None:
            return True
        with self._lock:
            now = self._clock()
            if self._retry_at is None or now < self._retry_at:
                return self._retry_at is None
            self._retry_at = now + self.open_s
            return True

    def failed(self) -> bool:
        """Open; return whether it was closed before."""
        with self._lock:
            was_closed = self._retry_at is None
            self._retry_at = self._clock() + self.open_s
            return was_closed

    def succeeded(self) -> bool:
        """Close; return whether it was open before."""
        if self._retry_at is None:
            return False
        with self._lock:
            was_open, self._retry_at = self._retry_at is not None, None
            return was_open

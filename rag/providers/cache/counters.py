"""Cache counters: hits, misses, bypasses and errors of this process, summed up in Redis."""

from __future__ import annotations

import threading
import time
from collections import Counter

from rag.providers.cache.tiered_cache import TieredCache

NAMES = ("hits", "misses", "bypasses", "errors")
_EVERY_S = 5.0


class CacheCounters:
    """Counts hits, misses, bypasses and errors; sends them on now and then, not at each event."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own: Counter[str] = Counter()
        self._unsent: Counter[str] = Counter()
        self._next_at = 0.0

    def add(self, name: str) -> None:
        """Count one event."""
        with self._lock:
            self._own[name] += 1
            self._unsent[name] += 1

    def own(self) -> dict[str, int]:
        """Return what this process has counted."""
        with self._lock:
            return {name: self._own[name] for name in NAMES}

    def send_if_due(self, cache: TieredCache, name: str) -> None:
        """Add to the counts of all processes, every few seconds."""
        now = time.monotonic()
        with self._lock:
            if now < self._next_at or not cache.is_shared:
                return
            self._next_at = now + _EVERY_S
        self.exchange(cache, name)

    def exchange(self, cache: TieredCache, name: str) -> dict[str, int] | None:
        """Add to the counts of all processes and return them; None when they cannot be reached."""
        with self._lock:
            sent, self._unsent = self._unsent, Counter()
        counted = cache.count(name, sent)
        if counted is None:
            with self._lock:
                self._unsent += sent
            return None
        return {one: counted.get(one, 0) for one in NAMES}

"""In-process LRU cache with time to live, bounded in entries and bytes; thread-safe."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable

# What an entry costs beside its name and its value: two bytes objects, a tuple, a dict's place.
_OVERHEAD = 250


class MemoryCache:
    """Keeps what was asked for last, within a number of entries and of bytes; thread-safe.

    A value that would take more than an eighth of the room is not kept. ``clock`` tells seconds.
    """

    def __init__(
        self, *, max_items: int, max_bytes: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.max_items, self.max_bytes = max_items, max_bytes
        self.n_bytes = 0
        self._clock = clock
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        _renew_lock_after_fork(self)

    @property
    def is_shared(self) -> bool:
        """Return whether other processes see what is set now."""
        return False

    def __len__(self) -> int:
        return len(self._found)

    def get(self, name: str) -> bytes | None:
        """Return the value that was set under ``name``, or None."""
        with self._lock:
            return self._live(name)

    def set(self, name: str, value: bytes, ttl_s: float) -> None:
        """Keep ``value`` for ``ttl_s`` seconds; what was there before is gone in any case."""
        with self._lock:
            self._put(name, value, ttl_s)

    def add(self, name: str, value: bytes, ttl_s: float) -> bool:
        """Keep ``value`` unless something is there; return whether it was kept."""
        with self._lock:
            if self._live(name) is not None:
                return False
            self._put(name, value, ttl_s)
            return True

    def delete(self, name: str) -> None:
        """Forget ``name``."""
        with self._lock:
            self._drop(name)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._found.clear()
            self.n_bytes = 0

    def _live(self, name: str) -> bytes | None:
        found = self._found.get(name)
        if found is None:
            return None
        if found[1] <= self._clock():
            self._drop(name)
            return None
        self._found.move_to_end(name)
        return found[0]

    def _put(self, name: str, value: bytes, ttl_s: float) -> None:
        self._drop(name)
        size = _size(name, value)
        if ttl_s <= 0 or size > self.max_bytes // 8:
            return
        self._found[name] = (value, self._clock() + ttl_s)
        self.n_bytes += size
        while len(self._found) > self.max_items or self.n_bytes > self.max_bytes:
            oldest, (dropped, _) = self._found.popitem(last=False)
            self.n_bytes -= _size(oldest, dropped)

    def _drop(self, name: str) -> None:
        found = self._found.pop(name, None)
        if found is not None:
            self.n_bytes -= _size(name, found[0])


def _size(name: str, value: bytes) -> int:
    return len(name) + len(value) + _OVERHEAD


def _renew_lock_after_fork(owner: MemoryCache) -> None:
    # Another thread of the parent may have held the lock; nobody would ever free it in the child.
    reference = weakref.ref(owner)

    def renew() -> None:
        found = reference()
        if found is not None:
            found._lock = threading.Lock()

    os.register_at_fork(after_in_child=renew)

"""Single flight: of many who ask the same at once one works, the others wait for its value.

Nobody waits for ever: who has waited long enough, or whose leader failed, works for itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rag.core.ports import Cache

# How long to wait for a leader in this process and in another one. Such a leader may have died:
# its lease ends by itself.
WAIT_S = 2.0
LEASE_S = 0.5
_POLL_S = 0.01


@dataclass(eq=False, slots=True)
class _Flight:
    landed: threading.Event = field(default_factory=threading.Event)
    value: bytes | None = None


class SingleFlight:
    """Lets one caller of a name work at a time, across processes where the cache is shared.

    ``before_wait`` is called by whoever is about to wait, to let go of what others need.
    """

    def __init__(self, cache: Cache, *, before_wait: Callable[[], None] = lambda: None) -> None:
        self._cache = cache
        self._before_wait = before_wait
        self._flights: dict[str, _Flight] = {}
        self._lock = threading.Lock()

    def run(
        self, name: str, find: Callable[[], bytes | None], work: Callable[[], bytes]
    ) -> tuple[bytes, bool]:
        """Return the value and whether another one made it.

        ``find`` looks for what ``work`` has kept. What ``work`` raises is raised to its caller
        alone.
        """
        with self._lock:
            flight = self._flights.get(name)
            is_leader = flight is None
            if flight is None:
                flight = self._flights[name] = _Flight()
        if not is_leader:
            self._before_wait()
            flight.landed.wait(WAIT_S)
            return (work(), False) if flight.value is None else (flight.value, True)
        try:
            flight.value, is_found = self._lead(name, find, work)
            return flight.value, is_found
        finally:
            with self._lock:
                del self._flights[name]
            flight.landed.set()

    def _lead(
        self, name: str, find: Callable[[], bytes | None], work: Callable[[], bytes]
    ) -> tuple[bytes, bool]:
        lease, value = f"{name}:lease", find()
        is_ours = value is None and self._take(lease)
        if value is None and not is_ours:
            value, is_ours = self._wait_for(lease, find)
        if value is not None:
            return value, True
        try:
            return work(), False
        finally:
            if is_ours and self._cache.is_shared:
                self._cache.delete(lease)

    def _take(self, lease: str) -> bool:
        # Processes that share no cache cannot hand each other what they find.
        return not self._cache.is_shared or self._cache.add(lease, b"1", LEASE_S)

    def _wait_for(self, lease: str, find: Callable[[], bytes | None]) -> tuple[bytes | None, bool]:
        self._before_wait()
        until = time.monotonic() + LEASE_S
        while time.monotonic() < until:
            time.sleep(_POLL_S)
            value = find()
            if value is not None:
                return value, False
            # A free lease: its holder has failed, or has landed just now.
            if self._take(lease):
                return find(), True
        return None, False

"""Sealed cache: authenticated values by keyed names, in this process and in Redis, made once.

A name (HMAC) says nothing about a question. A value opens only under the name that it was sealed
for and with this installation's secret, so that what is damaged, foreign or put in another's place
is a miss. Whatever happens to Redis, no call raises and none waits longer than one timeout: after
the first failure everybody goes on with the process's own for ten seconds.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from rag.core import metrics
from rag.core.errors import ProviderError
from rag.core.ports import Cache
from rag.providers.cache.memory_cache import MemoryCache

if TYPE_CHECKING:
    from rag.providers.cache.redis_cache import RedisCache

T = TypeVar("T")
MAX_VALUE = 4_000_000
EVENTS = ("hits", "misses", "bypasses", "errors")
# How long to wait for a leader in this process and in another one. Such a leader may have died:
# its lease ends by itself.
WAIT_S = 2.0
LEASE_S = 0.5
_POLL_S = 0.01
_SEND_EVERY_S = 5.0
_MARK_SIZE = 16
logger = logging.getLogger(__name__)


class Seal:
    """Makes names and seals values; installations with other secrets never meet.

    ``purpose`` keeps kinds of values apart.
    """

    def __init__(self, secret: str, purpose: str) -> None:
        self.purpose = purpose
        self._key = hashlib.blake2b(
            f"{purpose}\0{secret}".encode(), person=b"citable-cache"
        ).digest()
        installation = hashlib.blake2b(
            secret.encode(), digest_size=6, person=b"citable-name"
        ).hexdigest()
        self.prefix = f"citable:{installation}:{purpose}:"

    def name(self, asked: bytes) -> str:
        """Return the name under which the answer to ``asked`` is kept."""
        return self.prefix + hashlib.blake2b(asked, key=self._key, digest_size=20).hexdigest()

    def close(self, name: str, value: bytes) -> bytes:
        """Return ``value``, packed and sealed for ``name``."""
        packed = zlib.compress(value, 1)
        return self._mark(name, packed) + packed

    def open(self, name: str, sealed: bytes) -> bytes | None:
        """Return the value that was sealed for ``name``, or None when this is none such."""
        mark, packed = sealed[:_MARK_SIZE], sealed[_MARK_SIZE:]
        if not hmac.compare_digest(mark, self._mark(name, packed)):
            return None
        unpacking = zlib.decompressobj()
        try:
            value = unpacking.decompress(packed, MAX_VALUE)
        except zlib.error:
            return None
        return value if unpacking.eof else None

    def _mark(self, name: str, packed: bytes) -> bytes:
        return hashlib.blake2b(
            name.encode() + b"\0" + packed, key=self._key, digest_size=_MARK_SIZE
        ).digest()


@dataclass(eq=False, slots=True)
class _Flight:
    landed: threading.Event = field(default_factory=threading.Event)
    value: bytes | None = None


class SingleFlight:
    """Lets one caller of a name work at a time, across processes where the cache is shared.

    The others wait for its value; who has waited long enough, or whose leader failed, works for
    itself. ``before_wait`` is called by whoever is about to wait, to let go of what others need.
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


class SealedCache:
    """Values of one kind in ``near``, then in ``far`` (None: this process's own alone).

    ``fetch``, ``find`` and ``keep`` seal their values; ``get``, ``set``, ``add`` and ``delete``,
    as every ``Cache`` has them, take bytes as they are.
    """

    def __init__(
        self,
        near: MemoryCache,
        far: RedisCache | None = None,
        *,
        seal: Seal,
        before_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self.seal = seal
        self._near, self._far = near, far
        self._flight = SingleFlight(self, before_wait=before_wait)
        self._lock = threading.Lock()
        self._own: Counter[str] = Counter()
        self._unsent: Counter[str] = Counter()
        self._send_at = 0.0

    @property
    def is_shared(self) -> bool:
        """Return whether other processes see what is set now."""
        return self._far is not None and not self._far.breaker.is_open

    def fetch(self, payload: bytes, work: Callable[[], tuple[bytes, float]]) -> bytes:
        """Return what is kept for ``payload``, or let one of all who ask now do the ``work``.

        That returns a value and for how many seconds to keep it; 0 is for those who ask now.
        """
        name, is_hit = self.seal.name(payload), True
        # Who finds it here has no need to queue.
        found = self._open(name, self._near.get(name))
        if found is None:
            found, is_hit = self._flight.run(
                name, lambda: self.find(name), lambda: self.keep(name, *work())
            )
        self.count("hits" if is_hit else "misses")
        return found

    def find(self, name: str) -> bytes | None:
        """Return the value of a name; what does not open is counted as an error and forgotten."""
        return self._open(name, self.get(name))

    def keep(self, name: str, value: bytes, ttl_s: float) -> bytes:
        """Keep a value for so many seconds, if any, and return it."""
        if ttl_s > 0:
            self.set(name, self.seal.close(name, value), ttl_s)
        return value

    def get(self, name: str) -> bytes | None:
        """Return the bytes that were set under ``name``, or None."""
        value = self._near.get(name)
        if value is None:
            value, ttl_s = self._try(lambda far: far.get_with_ttl(name)) or (None, 0.0)
            if value is not None:
                self._near.set(name, value, ttl_s)
        return value

    def set(self, name: str, value: bytes, ttl_s: float) -> None:
        """Keep bytes for ``ttl_s`` seconds; what was there before is gone in any case."""
        self._near.set(name, value, ttl_s)
        self._try(lambda far: far.set(name, value, ttl_s))

    def add(self, name: str, value: bytes, ttl_s: float) -> bool:
        """Keep bytes unless something is there; return whether they were kept.

        Without the shared one only this process is asked.
        """
        is_kept = self._try(lambda far: far.add(name, value, ttl_s))
        return self._near.add(name, value, ttl_s) if is_kept is None else is_kept

    def delete(self, name: str) -> None:
        """Forget ``name``, here and where all see it."""
        self._near.delete(name)
        self._try(lambda far: far.delete(name))

    def count(self, event: str) -> None:
        """Count one of ``EVENTS``; bypasses are searches that may not use a cache.

        The counts of this process are sent on now and then, not at each event.
        """
        self._add(event)
        metrics.count("cache", cache=self.seal.purpose, event=event)
        now = time.monotonic()
        with self._lock:
            if now < self._send_at or not self.is_shared:
                return
            self._send_at = now + _SEND_EVERY_S
        self.totals()

    def own(self) -> dict[str, int]:
        """Return what this process has counted."""
        with self._lock:
            return {event: self._own[event] for event in EVENTS}

    def totals(self) -> dict[str, int] | None:
        """Return what all processes have counted, this one's included; None: not known."""
        with self._lock:
            sent, self._unsent = self._unsent, Counter()
        counted = self._try(lambda far: far.count(f"{self.seal.prefix}counters", sent))
        if counted is None:
            with self._lock:
                self._unsent += sent
            return None
        return {event: counted.get(event, 0) for event in EVENTS}

    def _add(self, event: str) -> None:
        with self._lock:
            self._own[event] += 1
            self._unsent[event] += 1

    def _open(self, name: str, sealed: bytes | None) -> bytes | None:
        value = None if sealed is None else self.seal.open(name, sealed)
        if sealed is not None and value is None:
            self._add("errors")
            self.delete(name)
        return value

    def _try(self, call: Callable[[RedisCache], T]) -> T | None:
        if (far := self._far) is None or not far.breaker.allows():
            return None
        try:
            done = call(far)
        except ProviderError as error:
            self._add("errors")
            if far.breaker.failed():
                logger.warning("%s Retry in %g s.", error, far.breaker.open_s)
            return None
        if far.breaker.succeeded():
            logger.info("The cache in Redis is back.")
        return done

"""Cache regions: search results and query vectors, kept in this process and in Redis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from django.conf import settings
from redis import Redis

from rag.conf import conf
from rag.core import metrics
from rag.providers.cache.circuit_breaker import CircuitBreaker
from rag.providers.cache.counters import CacheCounters
from rag.providers.cache.memory_cache import MemoryCache
from rag.providers.cache.redis_cache import RedisCache, connect
from rag.providers.cache.seal import Seal
from rag.providers.cache.single_flight import SingleFlight
from rag.providers.cache.tiered_cache import TieredCache
from rag.providers.postgres.db.connections import release_db

# Entries and bytes that one process keeps of each kind.
CAPACITY = {"results": (10_000, 32_000_000), "vectors": (20_000, 32_000_000)}


@dataclass(frozen=True, slots=True)
class CacheRegion:
    """Values of one kind: tiered cache, seal, single flight and counters."""

    cache: TieredCache
    seal: Seal
    flight: SingleFlight
    counters: CacheCounters

    def find(self, name: str) -> bytes | None:
        """Return the value of a name; what does not open is counted as an error and forgotten."""
        return self._open(name, self.cache.get(name))

    def keep(self, name: str, value: bytes, ttl_s: float) -> bytes:
        """Keep a value for so many seconds, if any, and return it."""
        if ttl_s > 0:
            self.cache.set(name, self.seal.close(name, value), ttl_s)
        return value

    def fetch(self, payload: bytes, work: Callable[[], tuple[bytes, float]]) -> bytes:
        """Return what is kept for ``payload``, or let one of all who ask now do the ``work``.

        That returns a value and for how many seconds to keep it; 0 is for those who ask now.
        """
        name, is_hit = self.seal.name(payload), True
        # Who finds it here has no need to queue.
        found = self._open(name, self.cache.peek(name))
        if found is None:
            found, is_hit = self.flight.run(
                name, lambda: self.find(name), lambda: self.keep(name, *work())
            )
        self.count("hits" if is_hit else "misses")
        return found

    def count(self, event: str) -> None:
        """Count one of hits, misses, errors, and bypasses: searches that may not use a cache."""
        self.counters.add(event)
        metrics.count("cache", cache=self.seal.prefix.split(":")[-2], event=event)
        self.counters.send_if_due(self.cache, f"{self.seal.prefix}counters")

    def count_all(self) -> dict[str, int] | None:
        """Return what all processes have counted; None when that is not known."""
        return self.counters.exchange(self.cache, f"{self.seal.prefix}counters")

    def _open(self, name: str, sealed: bytes | None) -> bytes | None:
        value = None if sealed is None else self.seal.open(name, sealed)
        if sealed is not None and value is None:
            self.counters.add("errors")
            self.cache.delete(name)
        return value


def cache_region(kind: str, redis_client: Redis | None = None) -> CacheRegion:
    """Return the region of ``results`` or ``vectors``: in Redis where one is set up, and here."""
    if redis_client is not None:
        return _make(kind, (RedisCache(redis_client), CircuitBreaker()), settings.SECRET_KEY)
    return _own(kind, conf().redis_url, settings.SECRET_KEY)


@lru_cache(maxsize=8)
def _own(kind: str, redis_url: str, secret: str) -> CacheRegion:
    return _make(kind, _server(redis_url) if redis_url else None, secret)


@lru_cache(maxsize=4)
def _server(redis_url: str) -> tuple[RedisCache, CircuitBreaker]:
    # One breaker for all kinds: a search that meets a frozen server waits once, not once a kind.
    return RedisCache(connect(redis_url)), CircuitBreaker()


def _make(kind: str, server: tuple[RedisCache, CircuitBreaker] | None, secret: str) -> CacheRegion:
    counters = CacheCounters()
    max_items, max_bytes = CAPACITY[kind]
    near = MemoryCache(max_items=max_items, max_bytes=max_bytes)
    far, breaker = server or (None, None)
    cache = TieredCache(near, far, breaker=breaker, on_failure=lambda: counters.add("errors"))
    return CacheRegion(
        cache, Seal(secret, kind), SingleFlight(cache, before_wait=release_db), counters
    )

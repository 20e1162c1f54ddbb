"""Two-tier cache: a process's own cache before a shared one that may fail.

Whatever happens to the shared one, no call raises and none waits longer than one timeout: after
the first failure everybody goes on with the process's own for ten seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from rag.core.errors import ProviderError
from rag.providers.cache.circuit_breaker import CircuitBreaker
from rag.providers.cache.memory_cache import MemoryCache
from rag.providers.cache.redis_cache import RedisCache

T = TypeVar("T")
logger = logging.getLogger(__name__)


class TieredCache:
    """Asks ``near``, then ``far``; None for ``far`` leaves the process's own alone.

    ``on_failure`` is called each time that the shared one fails.
    """

    def __init__(
        self,
        near: MemoryCache,
        far: RedisCache | None = None,
        *,
        breaker: CircuitBreaker | None = None,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._near = near
        self._far = far
        self._breaker = breaker or CircuitBreaker()
        self._on_failure = on_failure

    @property
    def is_shared(self) -> bool:
        """Return whether other processes see what is set now."""
        return self._far is not None and not self._breaker.is_open

    def get(self, name: str) -> bytes | None:
        """Return the value that was set under ``name``, or None."""
        value = self._near.get(name)
        if value is not None or self._far is None:
            return value
        far = self._far
        found = self._try(lambda: far.get_with_ttl(name))
        value, ttl_s = found or (None, 0.0)
        if value is not None:
            self._near.set(name, value, ttl_s)
        return value

    def peek(self, name: str) -> bytes | None:
        """Return what this process has itself, without asking the shared one."""
        return self._near.get(name)

    def set(self, name: str, value: bytes, ttl_s: float) -> None:
        """Keep ``value`` for ``ttl_s`` seconds; what was there before is gone in any case."""
        self._near.set(name, value, ttl_s)
        if self._far is not None:
            far = self._far
            self._try(lambda: far.set(name, value, ttl_s))

    def add(self, name: str, value: bytes, ttl_s: float) -> bool:
        """Keep ``value`` unless something is there; return whether it was kept.

        Without the shared one only this process is asked.
        """
        if self._far is not None:
            far = self._far
            is_kept = self._try(lambda: far.add(name, value, ttl_s))
            if is_kept is not None:
                return is_kept
        return self._near.add(name, value, ttl_s)

    def delete(self, name: str) -> None:
        """Forget ``name``, here and where all see it."""
        self._near.delete(name)
        if self._far is not None:
            far = self._far
            self._try(lambda: far.delete(name))

    def count(self, name: str, added: Mapping[str, int]) -> dict[str, int] | None:
        """Add to counters of all processes and return them; None when they cannot be reached."""
        if self._far is None:
            return None
        far = self._far
        return self._try(lambda: far.count(name, added))

    def _try(self, call: Callable[[], T]) -> T | None:
        if not self._breaker.allows():
            return None
        try:
            done = call()
        except ProviderError as error:
            self._on_failure()
            if self._breaker.failed():
                logger.warning("%s Retry in %g s.", error, self._breaker.open_s)
            return None
        if self._breaker.succeeded():
            logger.info("The cache in Redis is back.")
        return done

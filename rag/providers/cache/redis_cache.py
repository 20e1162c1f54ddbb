"""Redis cache: values shared by processes, in Redis or Valkey, with short timeouts.

Every call ends within milliseconds: a search must not wait for what was meant to save it time.
Slower networks put ``?socket_timeout=0.05`` at the end of the URL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django_redis.pool import ConnectionFactory
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from rag.core.errors import ConfigurationError, ProviderError
from rag.providers.cache.resolved_connection import connection_class

# With what a busy process adds to it, less than 20 ms.
TIMEOUT_S = 0.012


class _OwnPools(ConnectionFactory):  # type: ignore[misc]
    """Pools of this module alone; the library shares them by URL whatever their options."""

    _pools: dict[str, Any] = {}


def connect(url: str) -> Redis:
    """Return a client of the server at ``url``; nothing is sent before its first use.

    Raises ConfigurationError for what is no such URL.
    """
    kind = connection_class(url)
    options = {
        "SOCKET_TIMEOUT": TIMEOUT_S,
        "SOCKET_CONNECT_TIMEOUT": TIMEOUT_S,
        "CONNECTION_POOL_KWARGS": {
            # Each attempt may take its full time; and each greeting is one more wait.
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            "driver_info": None,
            **({} if kind is None else {"connection_class": kind}),
        },
    }
    try:
        client: Redis = _OwnPools(options).connect(url)
    except (ValueError, TypeError) as error:
        # Without the reason, which may quote a password.
        raise ConfigurationError(
            "REDIS_URL is no address of a Redis server.",
            hint="Write redis://host:6379/0, rediss://… or unix://….",
        ) from error
    return client


class RedisCache:
    """Keeps values in a server whose calls end soon; whatever fails is a ProviderError."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    def get(self, name: str) -> bytes | None:
        """Return the value that was set under ``name``, or None."""
        return self.get_with_ttl(name)[0]

    def get_with_ttl(self, name: str) -> tuple[bytes | None, float]:
        """Return the value and for how many more seconds it is kept."""
        with _told():
            pipeline = self._client.pipeline(transaction=False)
            pipeline.get(name)
            pipeline.pttl(name)
            value, ttl_ms = pipeline.execute()
        return (value if isinstance(value, bytes) else None), max(0.0, ttl_ms / 1000)

    def set(self, name: str, value: bytes, ttl_s: float) -> None:
        """Keep ``value`` for ``ttl_s`` seconds; what was there before is gone in any case."""
        with _told():
            if ttl_s < 0.001:
                self._client.delete(name)
            else:
                self._client.set(name, value, px=int(ttl_s * 1000))

    def add(self, name: str, value: bytes, ttl_s: float) -> bool:
        """Keep ``value`` unless something is there; return whether it was kept."""
        with _told():
            return bool(self._client.set(name, value, px=max(1, int(ttl_s * 1000)), nx=True))

    def delete(self, name: str) -> None:
        """Forget ``name``."""
        with _told():
            self._client.delete(name)

    def count(self, name: str, added: Mapping[str, int]) -> dict[str, int]:
        """Add to the counters kept under ``name`` and return what all processes have counted."""
        with _told():
            pipeline = self._client.pipeline(transaction=False)
            for field, n in added.items():
                pipeline.hincrby(name, field, n)
            pipeline.hgetall(name)
            counted = pipeline.execute()[-1]
        return {field.decode(): int(n) for field, n in counted.items()}


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError, ValueError) as error:
        raise ProviderError(
            "The cache in Redis failed: {reason}.", hint="Searches go on without it.", reason=error
        ) from error

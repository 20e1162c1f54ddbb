"""Redis cache: values shared by processes, in Redis or Valkey, with short timeouts and a breaker.

Every call ends within milliseconds: a search must not wait for what was meant to save it time.
Slower networks put ``?socket_timeout=0.05`` at the end of the URL. Timeouts of sockets do not hold
for the look-up of a name, which may take ten seconds when the server's entry, or the name server
itself, has just gone, so look-ups are bounded here.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django_redis.pool import ConnectionFactory
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.connection import SSLConnection as AsyncSSLConnection
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection
from redis.exceptions import RedisError
from redis.retry import Retry

from rag.core.errors import ConfigurationError, ProviderError

# With what a busy process adds to it, less than 20 ms.
TIMEOUT_S = 0.012
# The addresses that a name last had, the one that answered first.
_ADDRESSES: dict[str, list[str]] = {}
_LOOKUPS: dict[str, threading.Event] = {}
_LOCK = threading.Lock()


class _Resolved(Connection):
    """Connects to an address that the name has, or last had if that is not told in time."""

    def _connect(self) -> Any:
        name, failure = self.host, OSError(f"no address of {self.host} is known yet")
        try:
            for address in _addresses(name, self.socket_connect_timeout):
                self.host = address
                try:
                    return super()._connect()  # type: ignore[no-untyped-call]
                except OSError as error:
                    failure = error
                    _put_last(name, address)
                    if isinstance(error, TimeoutError):
                        break
        finally:
            self.host = name
        raise failure


class _ResolvedSSL(SSLConnection, _Resolved):
    """The same under TLS, whose certificates are checked against the name."""


class _OwnPools(ConnectionFactory):  # type: ignore[misc]
    """Pools of this module alone; the library shares them by URL whatever their options."""

    _pools: dict[str, Any] = {}


def connect(url: str) -> Redis:
    """Return a client of the server at ``url``; nothing is sent before its first use.

    Raises ConfigurationError for what is no such URL.
    """
    # None leaves it to the library: Unix sockets.
    kind = {"redis": _Resolved, "rediss": _ResolvedSSL}.get(url.partition("://")[0])
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


_SAME = ("host", "port", "db", "username", "password", "socket_timeout", "socket_connect_timeout")


def sync_client(client: Redis | AsyncRedis) -> Redis:
    """Return a client for threads: the same, or one of the server that an async one asks."""
    if isinstance(client, Redis):
        return client
    pool = client.connection_pool
    given = pool.connection_kwargs
    options = {name: given[name] for name in _SAME if given.get(name) is not None}
    timeouts = dict.fromkeys(("socket_timeout", "socket_connect_timeout"), TIMEOUT_S)
    if path := given.get("path"):
        options["unix_socket_path"] = path
    is_tls = issubclass(pool.connection_class, AsyncSSLConnection)
    return Redis(**{**timeouts, **options}, ssl=is_tls)


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


class RedisCache:
    """Keeps values in a server whose calls end soon; whatever fails is a ProviderError.

    ``breaker`` is asked and told by whoever calls.
    """

    def __init__(self, client: Redis, breaker: CircuitBreaker | None = None) -> None:
        self._client = client
        self.breaker = breaker or CircuitBreaker()

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


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError, ValueError) as error:
        raise ProviderError(
            "The cache in Redis failed: {reason}.", hint="Searches go on without it.", reason=error
        ) from error


def _addresses(name: str, timeout_s: float | None) -> list[str]:
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, name)
            return [name]
    with _LOCK:
        is_told = _LOOKUPS.get(name)
        if is_told is None:
            is_told = _LOOKUPS[name] = threading.Event()
            # It ends when it ends: what it brings is there for the next connection.
            threading.Thread(target=_look_up, args=(name, is_told), daemon=True).start()
    is_told.wait(timeout_s)
    with _LOCK:
        return list(_ADDRESSES.get(name, ()))


def _look_up(name: str, is_told: threading.Event) -> None:
    found: list[str] = []
    with contextlib.suppress(OSError, UnicodeError):
        infos = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        found = list(dict.fromkeys(str(info[4][0]) for info in infos))
    with _LOCK:
        known = _ADDRESSES.get(name, [])
        if found:
            _ADDRESSES[name] = sorted(
                found, key=lambda one: known.index(one) if one in known else -1
            )
        del _LOOKUPS[name]
    is_told.set()


def _put_last(name: str, address: str) -> None:
    with _LOCK:
        known = _ADDRESSES.get(name, [])
        if address in known:
            known.remove(address)
            known.append(address)

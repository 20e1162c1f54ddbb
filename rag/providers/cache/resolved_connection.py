"""Redis connections with bounded DNS look-ups.

Timeouts of sockets do not hold for the look-up of a name, which may take ten seconds when the
server's entry, or the name server itself, has just gone.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

from redis.connection import Connection, SSLConnection

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


def connection_class(url: str) -> type[Any] | None:
    """Return the class for a server's URL; None leaves it to the library (Unix sockets)."""
    return {"redis": _Resolved, "rediss": _ResolvedSSL}.get(url.partition("://")[0])


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

"""Sockets with a deadline: name resolution and connections to checked addresses.

Nothing here blocks longer than the deadline, and a cancelled call wakes up at once.
"""

from __future__ import annotations

import contextlib
import ipaddress
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import httpcore2

from rag.core.deadline import Deadline
from rag.providers.http.addresses import Address

CONNECT_S = 10.0

Lookup = Callable[[str, int], Sequence[str]]
Dial = Callable[[socket.socket, tuple[str, int]], None]


def system_lookup(host: str, port: int) -> list[str]:
    """Return the addresses of a name as this machine resolves it, best first."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(answer[4][0]) for answer in found))


@dataclass(frozen=True, slots=True)
class Network:
    """The network as the guard sees it; tests put another one in its place."""

    lookup: Lookup = system_lookup
    dial: Dial = socket.socket.connect
    tls: ssl.SSLContext | None = None


def resolve_host(
    host: Address | str, port: int, lookup: Lookup, deadline: Deadline
) -> list[Address]:
    """Return all addresses of a host; an address is its own. Raises OSError, TimeoutError too."""
    if not isinstance(host, str):
        return [host]
    answers: queue.SimpleQueue[Sequence[str] | OSError | None] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            answers.put(lookup(host, port))
        except OSError as error:
            answers.put(error)

    # The C library offers no way to stop it: the thread is left behind and ends by itself.
    threading.Thread(target=look_up, name="look-up", daemon=True).start()
    with deadline.on_cancel(lambda: answers.put(None)):
        try:
            answer = answers.get(timeout=min(CONNECT_S, deadline.remaining_s))
        except queue.Empty:
            raise TimeoutError from None
    if isinstance(answer, OSError):
        raise answer
    if not answer:
        deadline.check()
        raise socket.gaierror(socket.EAI_NONAME, "the name has no address")
    return [ipaddress.ip_address(text) for text in answer]


class GuardedBackend(httpcore2.NetworkBackend):
    """Connects to the given addresses and to nothing else, whatever host it is asked for."""

    def __init__(self, addresses: Sequence[Address], deadline: Deadline, dial: Dial) -> None:
        self._addresses = addresses
        self._deadline = deadline
        self._dial = dial
        self._sock: socket.socket | None = None

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        """Return a connection to the first address that answers; OSError when none does."""
        failed: OSError | None = None
        for n_left, address in zip(
            range(len(self._addresses), 0, -1), self._addresses, strict=True
        ):
            family = socket.AF_INET if address.version == 4 else socket.AF_INET6
            self.close()
            try:
                # A machine without IPv6 has no such sockets: the next address may be another.
                sock = self.use(socket.socket(family, socket.SOCK_STREAM))
                # The later addresses get their share of the time, should the first be silent.
                sock.settimeout(self.left_s(timeout) / n_left)
                self._dial(sock, (str(address), port))
            except OSError as error:
                failed = error
                continue
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return _Stream(sock, self)
        raise failed or OSError("the name has no address")

    def use(self, sock: socket.socket) -> socket.socket:
        """Return the socket, which ``abort`` will wake from now on."""
        self._sock = sock
        return sock

    def left_s(self, timeout: float | None) -> float:
        """Return how long one step may block; raise TimeoutError or CancelledError when over."""
        if self._deadline.is_cancelled:
            self._deadline.check()
        left_s = self._deadline.remaining_s
        if not left_s:
            raise TimeoutError
        return left_s if timeout is None else min(timeout, left_s)

    def abort(self) -> None:
        """Wake up whoever blocks on the connection, from another thread."""
        sock = self._sock
        if sock is not None:
            # Not the method of a TLS socket, which would pull the session from under its reader.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection, in whatever state it is."""
        if self._sock is not None:
            self._sock.close()


class _Stream(httpcore2.NetworkStream):
    def __init__(self, sock: socket.socket, backend: GuardedBackend) -> None:
        self._sock = sock
        self._backend = backend

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._sock.settimeout(self._backend.left_s(timeout))
        return self._sock.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        rest = memoryview(buffer)
        while rest:
            self._sock.settimeout(self._backend.left_s(timeout))
            try:
                rest = rest[self._sock.send(rest) :]
            except ConnectionError as error:
                # Servers refuse a request before they have read it: the answer may be there.
                raise httpcore2.WriteError(str(error)) from error

    def close(self) -> None:
        self._sock.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        left_s = self._backend.left_s(timeout)
        # The handshake comes after ``use``, so that a cancelled call wakes up in it as well.
        tls = ssl_context.wrap_socket(
            self._sock, server_hostname=server_hostname, do_handshake_on_connect=False
        )
        self._backend.use(tls)
        tls.settimeout(self._backend.left_s(left_s))
        tls.do_handshake()
        return _Stream(tls, self._backend)

    def get_extra_info(self, info: str) -> Any:
        return self._sock if info == "socket" else None

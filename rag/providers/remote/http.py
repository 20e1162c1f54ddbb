"""HTTP transports for the SDKs, with timeouts and without redirects.

Redirects are not followed: httpx2 would carry Gemini's key header to the other host.
"""

from __future__ import annotations

import contextlib
import math
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

import httpcore2
import httpx2

# A batch of embeddings as JSON is 10 MB; an answer without an end must not fill the memory.
MAX_RESPONSE_BYTES = 64 * 1024**2
# The moment at which the call of this thread must have ended.
_END: ContextVar[float] = ContextVar("end", default=math.inf)


class WholeTimeoutClient(httpx2.Client):
    """A client whose read timeout also bounds the whole answer, so that a trickle ends too.

    That is its head and its body, whatever they come in.
    """

    def __init__(self, base_url: str, verify: ssl.SSLContext) -> None:
        super().__init__(verify=verify, follow_redirects=False, trust_env=not _is_here(base_url))
        for transport in (self._transport, *self._mounts.values()):
            if isinstance(transport, httpx2.HTTPTransport):
                # The pool takes a backend, which the transport does not pass on.
                transport._pool._network_backend = _BoundedBackend()

    def send(self, request: httpx2.Request, *, stream: bool = False, **kwargs: Any) -> Any:
        """Return the response; raise ReadTimeout once the body has taken the whole timeout."""
        read_s = request.extensions.get("timeout", {}).get("read")
        end = math.inf if read_s is None else time.monotonic() + read_s
        with _ending(end):
            response = super().send(request, stream=True, **kwargs)
        response.stream = _TimedStream(response.stream, end, request)
        if not stream:
            with contextlib.ExitStack() as undo:
                undo.callback(response.close)
                response.read()
                undo.pop_all()
        return response


class OneShotAsyncClient(httpx2.AsyncClient):
    """A client that opens a connection for each request and closes it with the response.

    Pooled connections belong to one event loop and break in the next one; a stream that nobody
    reads any more must end at the server at once.
    """

    def __init__(self, base_url: str, verify: ssl.SSLContext) -> None:
        self._settings: dict[str, Any] = {
            "verify": verify,
            "follow_redirects": False,
            "trust_env": not _is_here(base_url),
        }
        super().__init__(**self._settings)

    async def send(self, request: httpx2.Request, *, stream: bool = False, **kwargs: Any) -> Any:
        """Return the response on a connection of its own."""
        async with contextlib.AsyncExitStack() as undo:
            client = httpx2.AsyncClient(**self._settings)
            undo.push_async_callback(client.aclose)
            response = await client.send(request, stream=True)
            response.stream = _OwningStream(response.stream, client, request)
            if not stream:
                await response.aread()
            undo.pop_all()
        return response


def _is_here(base_url: str) -> bool:
    # httpx2 sends even these through HTTP_PROXY, and a proxy cannot reach the caller's own machine.
    host = urlsplit(base_url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _check_size(n_left: int, request: httpx2.Request) -> None:
    if n_left < 0:
        limit = MAX_RESPONSE_BYTES // 1024**2
        raise httpx2.ReadError(f"more than {limit} MB came", request=request)


@contextlib.contextmanager
def _ending(end: float) -> Iterator[None]:
    token = _END.set(end)
    try:
        yield
    finally:
        _END.reset(token)


def _left_s(timeout_s: float | None) -> float | None:
    left_s = _END.get() - time.monotonic()
    if left_s <= 0:
        raise httpcore2.ReadTimeout("The whole answer took too long.")
    return left_s if timeout_s is None else min(timeout_s, left_s)


class _BoundedBackend(httpcore2.SyncBackend):
    """Connections of which each wait ends with the call, not only after a time of its own."""

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **kwargs: Any
    ) -> httpcore2.NetworkStream:
        return _BoundedStream(super().connect_tcp(host, port, _left_s(timeout), *args, **kwargs))


class _BoundedStream(httpcore2.NetworkStream):
    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left_s(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left_s(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        inner = self._stream.start_tls(ssl_context, server_hostname, _left_s(timeout))
        return _BoundedStream(inner)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _TimedStream(httpx2.SyncByteStream):
    def __init__(self, stream: Any, end: float, request: httpx2.Request) -> None:
        self._stream = stream
        self._end = end
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        n_left, parts = MAX_RESPONSE_BYTES, iter(self._stream)
        while True:
            with _ending(self._end):
                part = next(parts, None)
            if part is None:
                return
            n_left -= len(part)
            _check_size(n_left, self._request)
            if time.monotonic() > self._end:
                raise httpx2.ReadTimeout("The whole answer took too long.", request=self._request)
            yield part

    def close(self) -> None:
        self._stream.close()


class _OwningStream(httpx2.AsyncByteStream):
    def __init__(self, stream: Any, client: httpx2.AsyncClient, request: httpx2.Request) -> None:
        self._stream = stream
        self._client = client
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        n_left = MAX_RESPONSE_BYTES
        async for part in self._stream:
            n_left -= len(part)
            _check_size(n_left, self._request)
            yield part

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            await self._client.aclose()

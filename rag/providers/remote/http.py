"""HTTP transports for the SDKs, with timeouts and without redirects.

Redirects are not followed: httpx2 would carry Gemini's key header to the other host.
"""

from __future__ import annotations

import contextlib
import math
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2

# A batch of embeddings as JSON is 10 MB; an answer without an end must not fill the memory.
MAX_RESPONSE_BYTES = 64 * 1024**2


class WholeTimeoutClient(httpx2.Client):
    """A client whose read timeout also bounds the whole body, so that a trickle ends too."""

    def __init__(self, base_url: str, verify: ssl.SSLContext) -> None:
        super().__init__(verify=verify, follow_redirects=False, trust_env=not _is_here(base_url))

    def send(self, request: httpx2.Request, *, stream: bool = False, **kwargs: Any) -> Any:
        """Return the response; raise ReadTimeout once the body has taken the whole timeout."""
        read_s = request.extensions.get("timeout", {}).get("read")
        started = time.monotonic()
        response = super().send(request, stream=True, **kwargs)
        end = math.inf if read_s is None else started + read_s
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


class _TimedStream(httpx2.SyncByteStream):
    def __init__(self, stream: Any, end: float, request: httpx2.Request) -> None:
        self._stream = stream
        self._end = end
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        n_left = MAX_RESPONSE_BYTES
        for part in self._stream:
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

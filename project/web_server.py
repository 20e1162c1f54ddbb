"""Web server: uvicorn whose request heads are bounded in bytes, headers and seconds.

``python -m project.web_server [--host H] [--port P]`` serves the site. A head that is too large or
too slow is answered and cut off before anything of Django runs; bodies are bounded by
``project.request_limits``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from http import HTTPStatus
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Browsers send 2 KB; proxies with tickets of a single sign-on up to 32.
MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 100
# From the first byte, or from the connection, to the blank line.
HEAD_TIMEOUT_S = 20.0


class HeadLimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 connection that answers 431 to a head that is too large, 408 to one too slow.

    The parser joins the pieces of one header anew with each piece, so a header without an end costs
    the square of its length: what it has not yet finished is counted as bytes come in. The same
    count bounds chunk extensions and trailers.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._n_unfinished = self._n_bytes = self._n_headers = 0
        self._is_refused = self._is_in_body = False
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a piece; at most one piece is read beyond the limit."""
        if self._is_refused:
            return
        if not self._is_in_body:
            self._start_timer()
        self._n_unfinished += len(data)
        n_before = self._n_unfinished
        super().data_received(data)
        if self._n_unfinished == n_before > MAX_HEAD_BYTES and not self._is_refused:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _TOO_LARGE)

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser gave up on, once."""
        if self._n_bytes > MAX_HEAD_BYTES or self._n_headers > MAX_HEADERS:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _TOO_LARGE)
        elif not self._is_refused:
            self._refuse(HTTPStatus.BAD_REQUEST, msg)

    def on_message_begin(self) -> None:
        """Begin to count a head."""
        super().on_message_begin()
        self._n_bytes = self._n_headers = 0
        self._is_in_body = False
        self._start_timer()

    def on_url(self, url: bytes) -> None:
        """Count a piece of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header, or a trailer behind the body."""
        self._n_headers += 1
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Give the request to the application."""
        self._stop_timer()
        self._n_unfinished, self._is_in_body = 0, True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._n_unfinished = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request; the next may follow on the same connection."""
        self._n_unfinished, self._is_in_body = 0, False
        super().on_message_complete()

    def _count(self, n_bytes: int) -> None:
        self._n_bytes += n_bytes
        if self._n_bytes > MAX_HEAD_BYTES or self._n_headers > MAX_HEADERS:
            # Which makes the parser give up.
            raise ValueError("The head is too large.")

    def _start_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._end_slow_head)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_slow_head(self) -> None:
        self._head_timer = None
        if self.cycle is not None and not self.cycle.response_complete:
            # An answer is still on its way on this connection; it may end.
            self._start_timer()
            return
        self._refuse(HTTPStatus.REQUEST_TIMEOUT, _TOO_SLOW)

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._is_refused = True
        self._stop_timer()
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            body = reason.encode()
            self.transport.write(
                f"HTTP/1.1 {status.value} {status.phrase}\r\n"
                "content-type: text/plain; charset=utf-8\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode()
                + body
            )
        self.transport.close()


_TOO_LARGE = (
    f"The head of the request is larger than {MAX_HEAD_BYTES // 1024} KB "
    f"or has more than {MAX_HEADERS} headers."
)
_TOO_SLOW = f"The head of the request did not come within {HEAD_TIMEOUT_S:.0f} s."


def server_config(**options: Any) -> uvicorn.Config:
    """Return the configuration of the server; ``options`` are uvicorn's."""
    return uvicorn.Config("project.asgi:application", http=HeadLimitedProtocol, **options)


def main() -> None:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser(
        prog="python -m project.web_server", description="Serve the site; flags are uvicorn's."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--log-level", default="warning")
    parser.add_argument("--forwarded-allow-ips", help="proxies whose word on visitors is taken")
    parser.add_argument("--timeout-graceful-shutdown", type=int, default=5)
    # A second Ctrl+C, raised again by uvicorn when it has ended.
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(server_config(**vars(parser.parse_args()))).run()


if __name__ == "__main__":
    main()

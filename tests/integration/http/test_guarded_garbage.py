"""Servers that do not keep to HTTP: each ends in an error for people, in time."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.core.deadline import Deadline
from rag.core.errors import ProviderError, RAGError
from rag.core.sources import FetchReply, FetchRequest
from rag.providers.http.guard import GuardedHttp

OK = b"HTTP/1.1 200 OK\r\n"


@contextlib.contextmanager
def speaking(raw: bytes, times: int = 1) -> Iterator[str]:
    """Serve these very bytes to each caller and hang up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.recv(65536)
                        for _ in range(times):
                            connection.sendall(raw)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def fetch(url: str, timeout_s: float = 5.0) -> FetchReply:
    request = FetchRequest(url, max_bytes=10_000, retries=0)
    return GuardedHttp(["127.0.0.1"]).fetch(request, deadline=Deadline(timeout_s))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no http at all\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200",
        OK + b"no colon\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        OK + b"Content-Length: 50\r\n\r\nhello",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
        OK + b"Transfer-Encoding: gzip\r\n\r\nhello",
        OK + b"X-Long: " + b"a" * 200_000 + b"\r\n\r\n",
        OK
        + b"Content-Encoding: gzip, gzip, gzip, gzip, gzip, gzip, gzip\r\nContent-Length: 1\r\n\r\na",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
)
def test_what_is_no_http_is_an_error(raw: bytes) -> None:
    with speaking(raw) as url, pytest.raises(ProviderError):
        fetch(url)


def test_a_flood_of_preliminary_answers_ends_at_the_deadline() -> None:
    started = time.monotonic()
    with speaking(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 100, 1_000_000) as url:
        with pytest.raises(ProviderError):
            fetch(url, timeout_s=0.5)
        assert time.monotonic() - started < 1.5


def test_a_flood_of_headers_is_cut_off() -> None:
    with speaking(OK, 1) as url, pytest.raises(ProviderError):
        fetch(url)
    with (
        speaking(b"X-Flood: " + b"a" * 1000 + b"\r\n", 100_000) as url,
        pytest.raises(ProviderError),
    ):
        fetch(url)


def test_a_body_that_ends_with_its_connection_is_whole() -> None:
    with speaking(OK + b"\r\nhello") as url:
        assert fetch(url).body == b"hello"


@given(
    raw=st.binary(max_size=60),
    head=st.sampled_from([b"", OK, OK + b"Content-Encoding: gzip\r\n\r\n"]),
)
@settings(max_examples=40)
def test_any_bytes_end_in_a_reply_or_an_error_for_people(raw: bytes, head: bytes) -> None:
    with speaking(head + raw) as url:
        try:
            assert len(fetch(url).body) <= 10_000
        except RAGError as error:
            assert "127.0.0.1" in str(error)

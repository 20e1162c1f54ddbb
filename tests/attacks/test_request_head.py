"""Request heads without an end, without measure or without haste, beside other requests.

Before heads were bounded, 41 MB of one header let another request wait 9.6 s.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.asgi_server import server_thread

BEGIN = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server_thread() as address:
        httpx2.get(f"{address}/healthz", timeout=60)
        yield address


def connect(url: str) -> socket.socket:
    place = urlsplit(url)
    connection = socket.create_connection((place.hostname, place.port))
    connection.settimeout(10)
    return connection


def answer_to(url: str, *pieces: bytes) -> bytes:
    """Send until the server closes; return all that it said."""
    said = b""
    with connect(url) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            while read := connection.recv(65_536):
                said += read
        except (ConnectionResetError, BrokenPipeError):
            pass
    return said


def waits_beside(url: str, attack: threading.Thread) -> list[float]:
    """Return the seconds that requests take while the attack goes on."""
    times = []
    attack.start()
    while attack.is_alive():
        began = time.perf_counter()
        assert httpx2.get(f"{url}/healthz", timeout=30).status_code == 200
        times.append(time.perf_counter() - began)
        time.sleep(0.01)
    attack.join()
    return times


@pytest.mark.parametrize(
    "beginning",
    [
        BEGIN + b"X-Endless: ",
        b"GET /",
        BEGIN + b"X-",
        b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    ],
    ids=["value", "address", "name", "chunk extension", "trailer"],
)
def test_what_has_no_end_is_cut_off_and_delays_nobody(url: str, beginning: bytes) -> None:
    sent = []

    def attack() -> None:
        with connect(url) as connection:
            try:
                connection.sendall(beginning)
                for _ in range(640):
                    connection.sendall(b"a" * 65_536)
                    sent.append(65_536)
            except OSError:
                return

    times = waits_beside(url, threading.Thread(target=attack))
    # What the sockets of both sides hold is sent before the end is seen.
    assert sum(sent) < 16 * 1024**2
    assert not times or max(times) < 2


@pytest.mark.parametrize(
    "head",
    [
        BEGIN + b"".join(b"X-%d: a\r\n" % n for n in range(200)) + b"\r\n",
        BEGIN + b"X: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["many headers", "a long header", "a long address"],
)
def test_a_head_beyond_the_limits_is_431(url: str, head: bytes) -> None:
    said = answer_to(url, head)
    assert said.startswith(b"HTTP/1.1 431 ")
    assert b"larger than 64 KB or has more than 100 headers" in said
    assert b"connection: close" in said.lower()


def test_a_head_below_the_limits_and_a_body_far_above_are_served(url: str) -> None:
    headers = {f"X-{n}": "a" * 600 for n in range(80)}
    with httpx2.Client(base_url=url, headers=headers) as client:
        for _ in range(3):
            assert client.get("/healthz").status_code == 200
        body = (b"a" * 1000 for _ in range(2_000))
        assert client.post("/healthz", content=body).status_code in {403, 404, 405}


def test_a_head_that_drips_is_ended_although_bytes_come(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("project.web_server.HEAD_TIMEOUT_S", 0.6)
    began = time.monotonic()
    said = b""
    with connect(url) as connection:
        connection.sendall(BEGIN)
        connection.settimeout(0.05)
        while time.monotonic() < began + 8:
            try:
                connection.sendall(b"X: a\r\n")
                if not (read := connection.recv(1000)):
                    break
                said += read
            except TimeoutError:
                continue
            except OSError:
                break
    assert said.startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - began < 4


def test_a_connection_that_says_nothing_is_ended(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("project.web_server.HEAD_TIMEOUT_S", 0.5)
    assert answer_to(url).startswith(b"HTTP/1.1 408 ")
    assert answer_to(url, b"\r\n").startswith(b"HTTP/1.1 408 ")


def test_a_thousand_slow_clients_do_not_slow_the_rest(url: str) -> None:
    clients = [connect(url) for _ in range(1000)]
    is_over = threading.Event()

    def attack() -> None:
        while not is_over.wait(0.2):
            for client in clients:
                client.send(b"X: a\r\n")

    for client in clients:
        client.send(BEGIN)
    attacking = threading.Thread(target=attack)
    attacking.start()
    try:
        times = []
        for _ in range(20):
            began = time.perf_counter()
            assert httpx2.get(f"{url}/healthz", timeout=30).status_code == 200
            times.append(time.perf_counter() - began)
        assert sorted(times)[10] < 1
    finally:
        is_over.set()
        attacking.join()
        for client in clients:
            client.close()

"""The guarded fetch against loopback servers: what comes back, and how each fault ends."""

from __future__ import annotations

import gzip
import io
import itertools
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from rag.core.deadline import Deadline
from rag.core.errors import (
    CancelledError,
    ConfigurationError,
    InvalidInputError,
    LimitError,
    ProviderError,
    ProviderTimeoutError,
    UnknownNameError,
)
from rag.core.sources import FetchReply, FetchRequest
from rag.providers.http.guard import GuardedHttp
from rag.providers.http.sockets import Network
from tests.fakes.fake_network import PretendNetwork
from tests.fakes.loopback import Call, Fault, LoopbackServer, Reply

HERE = ("127.0.0.1",)
MB = 1_000_000


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer() as made:
        made.route("GET", "/fine", lambda call: Reply({"found": call.query}))
        yield made


def fetch(url: str, timeout_s: float = 10.0, **wishes: Any) -> FetchReply:
    return GuardedHttp(HERE).fetch(FetchRequest(url, **wishes), deadline=Deadline(timeout_s))


def serve(server: LoopbackServer, path: str, reply: Reply, method: str = "GET") -> str:
    server.route(method, path, lambda call: reply)
    return server.origin + path


def test_a_reply_has_status_headers_body_and_the_address(server: LoopbackServer) -> None:
    url = serve(server, "/text", Reply("中文".encode(), headers={"X-Kind": "a"}))
    reply = fetch(url)
    assert (reply.status, reply.body.decode(), reply.url) == (200, "中文", url)
    assert reply.headers["x-kind"] == "a"


def test_a_request_carries_what_it_was_given(server: LoopbackServer) -> None:
    server.route("POST", "/echo", lambda call: Reply({}))
    fetch(
        server.origin + "/echo?a=1&b=%26#part",
        method="POST",
        params={"q": "北京 & a=b", "b": "2"},
        headers={"X-Key": "k", "Accept": "application/json"},
        json={"text": "问题", "n": 3},
    )
    call = server.calls[0]
    assert call.query == {"a": "1", "b": "2", "q": "北京 & a=b"}
    assert call.json == {"text": "问题", "n": 3}
    assert call.headers["x-key"] == "k"
    assert call.headers["accept"] == "application/json"
    assert call.headers["content-type"] == "application/json"
    assert call.headers["user-agent"] == "Citable"
    assert call.headers["host"] == server.origin.removeprefix("http://")


def test_the_address_of_a_reply_has_no_parameters_of_the_caller(server: LoopbackServer) -> None:
    assert fetch(server.origin + "/fine", params={"key": "top-secret"}).url.endswith("/fine")


def test_no_content_is_a_reply_with_an_empty_body(server: LoopbackServer) -> None:
    assert fetch(serve(server, "/none", Reply(status=204))).body == b""


def test_a_proxy_of_the_environment_is_not_asked(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert fetch(server.origin + "/fine").status == 200


@pytest.mark.parametrize(
    ("coding", "packed"),
    [("gzip", gzip.compress(b"a" * 999)), ("deflate", zlib.compress(b"a" * 999))],
    ids=["gzip", "deflate"],
)
def test_a_packed_body_is_unpacked(server: LoopbackServer, coding: str, packed: bytes) -> None:
    url = serve(server, "/packed", Reply(packed, headers={"Content-Encoding": coding}))
    assert fetch(url).body == b"a" * 999


def test_a_coding_nobody_asked_for_is_an_error(server: LoopbackServer) -> None:
    url = serve(server, "/br", Reply(b"\x0b\x02", headers={"Content-Encoding": "br"}))
    with pytest.raises(ProviderError, match=r"in a way that was not asked for \(br\)"):
        fetch(url)


def test_a_broken_packing_is_an_error(server: LoopbackServer) -> None:
    url = serve(server, "/broken", Reply(b"no gzip", headers={"Content-Encoding": "gzip"}))
    with pytest.raises(ProviderError, match="connection to 127"):
        fetch(url, retries=0)


def test_a_bomb_ends_at_the_limit_after_unpacking(server: LoopbackServer) -> None:
    bomb = gzip.compress(gzip.compress(bytes(300 * MB), 9), 9)
    assert len(bomb) < 10_000
    url = serve(server, "/bomb", Reply(bomb, headers={"Content-Encoding": "gzip, gzip"}))
    tracemalloc.start()
    with pytest.raises(LimitError, match=r"larger than 5,000,000 bytes"):
        fetch(url)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30 * MB


def test_a_body_of_a_gigabyte_is_cut_off_early(server: LoopbackServer) -> None:
    sent = itertools.count()
    piece = bytes(MB)

    def flood(call: Call) -> Reply:
        return Reply(events=(piece for _ in itertools.takewhile(lambda n: n < 1000, sent)))

    server.route("GET", "/flood", flood)
    started = time.monotonic()
    with pytest.raises(LimitError, match="max_bytes"):
        fetch(server.origin + "/flood")
    assert time.monotonic() - started < 5
    assert next(sent) < 30


def test_a_length_over_the_limit_is_refused_before_the_body(server: LoopbackServer) -> None:
    server.fail(Fault(200, bytes(6 * MB), drip_s=1.0))
    started = time.monotonic()
    with pytest.raises(LimitError):
        fetch(server.origin + "/fine")
    assert time.monotonic() - started < 0.8


def test_a_body_at_the_limit_is_whole(server: LoopbackServer) -> None:
    url = serve(server, "/exact", Reply(b"a" * 1000))
    assert len(fetch(url, max_bytes=1000).body) == 1000
    with pytest.raises(LimitError):
        fetch(url, max_bytes=999)


def test_errors_of_the_server_are_tried_again(server: LoopbackServer) -> None:
    server.fail(Fault(500, b"down", times=1), Fault(503, b"down", times=1))
    assert fetch(server.origin + "/fine").status == 200
    assert len(server.calls) == 3


def test_a_server_that_stays_down_is_an_error_with_its_words(server: LoopbackServer) -> None:
    server.fail(Fault(503, b'{"error": "maintenance\nuntil noon"}', times=9))
    with pytest.raises(ProviderError, match=r"HTTP 503: .*maintenance until noon.*Try again later"):
        fetch(server.origin + "/fine", retries=1)
    assert len(server.calls) == 2


@pytest.mark.parametrize("status", [400, 401, 404, 405, 501, 300, 304])
def test_other_statuses_are_errors_at_once(server: LoopbackServer, status: int) -> None:
    url = serve(server, "/no", Reply(b"", status))
    with pytest.raises(ProviderError, match=f"HTTP {status}"):
        fetch(url)
    assert len(server.calls) == 1


def test_a_web_page_is_not_quoted(server: LoopbackServer) -> None:
    with pytest.raises(ProviderError, match="HTTP 404: a web page"):
        fetch(serve(server, "/page", Reply(b"<html><h1>Not here</h1>", 404)))


def test_a_wish_of_seconds_is_kept(server: LoopbackServer) -> None:
    server.fail(Fault(429, b"busy", {"Retry-After": "1"}))
    started = time.monotonic()
    assert fetch(server.origin + "/fine").status == 200
    assert 1.0 <= time.monotonic() - started < 3.0


def test_a_wish_of_a_date_is_kept(server: LoopbackServer) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    server.fail(Fault(429, b"busy", {"Retry-After": later}))
    started = time.monotonic()
    assert fetch(server.origin + "/fine").status == 200
    assert 0.8 <= time.monotonic() - started < 3.0


@pytest.mark.parametrize("wish", ["3600", "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_a_wish_beyond_the_deadline_ends_at_once(server: LoopbackServer, wish: str) -> None:
    server.fail(Fault(429, b"busy", {"Retry-After": wish}, times=9))
    started = time.monotonic()
    with pytest.raises(ProviderError, match="HTTP 429: busy"):
        fetch(server.origin + "/fine")
    assert time.monotonic() - started < 1.0
    assert len(server.calls) == 1


@pytest.mark.parametrize("cut", ["before", "middle"])
def test_a_dropped_connection_is_tried_again(server: LoopbackServer, cut: str) -> None:
    server.fail(Fault(cut=cut))
    assert fetch(server.origin + "/fine").body == b'{"found": {}}'
    server.fail(Fault(cut=cut, times=9))
    with pytest.raises(ProviderError, match="connection to 127.*failed"):
        fetch(server.origin + "/fine", retries=1)


def test_a_refused_connection_is_an_error() -> None:
    with LoopbackServer() as closed:
        origin = closed.origin
    with pytest.raises(ProviderError, match="connection to 127.*Connection refused"):
        fetch(origin, retries=0)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(delay_s=30),
        Fault(drip_s=0.1),
        Fault(200, b"x" * 500, drip_s=0.1),
        Fault(503, b"x" * 500, drip_s=0.1),
    ],
)
def test_a_slow_server_ends_at_the_deadline(server: LoopbackServer, fault: Fault) -> None:
    serve(server, "/slow", Reply(b"x" * 500))
    server.fail(fault)
    started = time.monotonic()
    with pytest.raises(ProviderError) as caught:
        fetch(server.origin + "/slow", timeout_s=0.6)
    assert time.monotonic() - started < 1.2
    if fault.status != 503:
        assert isinstance(caught.value, ProviderTimeoutError)
        assert "did not answer within 0.6 s" in str(caught.value)


@pytest.mark.parametrize("fault", [Fault(delay_s=30), Fault(200, b"x" * 500, drip_s=0.1)])
def test_a_cancelled_call_wakes_up(server: LoopbackServer, fault: Fault) -> None:
    server.fail(fault)
    assert cancelled_after(0.3, server.origin + "/fine") < 0.5


def test_a_cancelled_call_does_not_sleep_on(server: LoopbackServer) -> None:
    server.fail(Fault(429, b"busy", {"Retry-After": "8"}))
    assert cancelled_after(0.3, server.origin + "/fine") < 0.5


def test_a_body_without_a_length_is_not_whole_when_it_is_cancelled(server: LoopbackServer) -> None:
    # Identity until the connection closes: the end looks the same as a finished body.
    server.fail(
        Fault(200, b"x" * 500, {"Content-Length": "500", "Connection": "close"}, drip_s=0.1)
    )
    assert cancelled_after(0.3, server.origin + "/fine") < 0.5


def cancelled_after(seconds: float, url: str, network: Network | None = None) -> float:
    """Cancel a call after a while and return how long it went on, in seconds."""
    deadline = Deadline(20.0)
    ended: list[Any] = []

    def call() -> None:
        try:
            ended.append(GuardedHttp(HERE, network).fetch(FetchRequest(url), deadline=deadline))
        except CancelledError as error:
            ended.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    time.sleep(seconds)
    assert not ended
    started = time.monotonic()
    deadline.cancel()
    thread.join(5)
    assert isinstance(ended[0], CancelledError)
    return time.monotonic() - started


def test_a_look_up_that_hangs_ends_with_the_call() -> None:
    release = threading.Event()

    def hang(host: str, port: int) -> list[str]:
        release.wait(20)
        return []

    network = Network(lookup=hang)
    with pytest.raises(ProviderTimeoutError):
        GuardedHttp((), network).fetch(FetchRequest("http://slow.example"), deadline=Deadline(0.3))
    assert cancelled_after(0.2, "http://slow.example", network) < 0.5
    release.set()


def test_a_call_that_is_over_does_not_begin(server: LoopbackServer) -> None:
    deadline = Deadline(5)
    deadline.cancel()
    with pytest.raises(CancelledError):
        GuardedHttp(HERE).fetch(FetchRequest(server.origin), deadline=deadline)
    with pytest.raises(ProviderTimeoutError):
        fetch(server.origin, timeout_s=0.0)
    assert server.calls == []


def test_a_name_nobody_knows_is_an_error() -> None:
    guard = GuardedHttp((), PretendNetwork().as_network())
    with pytest.raises(ProviderError, match=r"name nowhere\.example cannot be resolved"):
        guard.fetch(FetchRequest("http://nowhere.example"), deadline=Deadline(5))


@pytest.mark.parametrize(
    "name",
    ["Host", "Content-Length", "transfer-encoding", "Connection", "Proxy-Authorization", "", "a b"],
)
def test_headers_that_steer_the_message_cannot_be_set(name: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot be set"):
        fetch("http://127.0.0.1", headers={name: "x"})


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\n", "a\x00b", "a\x85b"])
def test_a_header_is_one_line(value: str) -> None:
    with pytest.raises(InvalidInputError, match="“X-Key” holds a line break") as caught:
        fetch("http://127.0.0.1", headers={"X-Key": value})
    assert "Evil" not in str(caught.value)


def test_a_header_may_be_chinese(server: LoopbackServer) -> None:
    fetch(server.origin + "/fine", headers={"X-Query": "北京"})
    assert server.calls[0].headers["x-query"].encode("latin-1").decode() == "北京"


def test_a_body_that_is_no_json_and_a_method_nobody_knows_are_refused() -> None:
    for body in ({"a": float("nan")}, {"a": object()}, {"a": "\ud800"}):
        with pytest.raises(InvalidInputError, match="cannot be written as JSON"):
            fetch("http://127.0.0.1", method="POST", json=body)
    with pytest.raises(UnknownNameError, match="GET, HEAD"):
        fetch("http://127.0.0.1", method="CONNECT")


def test_a_download_goes_to_its_sink_in_flat_memory(server: LoopbackServer, tmp_path: Path) -> None:
    piece = bytes(range(256)) * 4096
    server.route("GET", "/big", lambda call: Reply(events=(piece for _ in range(60))))
    tracemalloc.start()
    with (tmp_path / "big").open("w+b") as sink:
        reply = GuardedHttp(HERE).download(
            FetchRequest(server.origin + "/big", max_bytes=100 * MB), sink, deadline=Deadline(20)
        )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (tmp_path / "big").stat().st_size == 60 * len(piece)
    assert (reply.body, reply.headers["content-type"]) == (b"", "application/octet-stream")
    assert peak < 8 * MB


def test_a_download_that_broke_off_is_undone_before_the_next_try(server: LoopbackServer) -> None:
    serve(server, "/data", Reply(b"0123456789" * 1000))
    server.fail(Fault(cut="middle"))
    sink = io.BytesIO()
    sink.write(b"kept")
    GuardedHttp(HERE).download(
        FetchRequest(server.origin + "/data", max_bytes=MB), sink, deadline=Deadline(10)
    )
    assert sink.getvalue() == b"kept" + b"0123456789" * 1000


def test_a_full_disk_is_told_from_a_broken_connection(server: LoopbackServer) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(ConfigurationError, match="cannot be stored: No space left"):
        GuardedHttp(HERE).download(
            FetchRequest(server.origin + "/fine", max_bytes=MB), Full(), deadline=Deadline(5)
        )

"""TLS through the guard, and calls that are left while they block."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rag.core.deadline import Deadline
from rag.core.errors import (
    CancelledError,
    ForbiddenError,
    ProviderError,
    ProviderTimeoutError,
    RAGError,
)
from rag.core.sources import FetchReply, FetchRequest
from rag.providers.http.guard import GuardedHttp
from rag.providers.http.sockets import Network
from tests.fakes.fake_network import PUBLIC, Authority, PretendNetwork, TlsServer, seen_names
from tests.fakes.loopback import LoopbackServer, Reply

OTHER = "198.41.0.4"


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer() as made:
        made.route("GET", "/fine", lambda call: Reply(b"fine"))
        yield made


@pytest.fixture
def net(server: LoopbackServer) -> PretendNetwork:
    made = PretendNetwork()
    made.name("api.example", server)
    return made


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def fetch(net: PretendNetwork, url: str, *allowed: str, **wishes: Any) -> FetchReply:
    request = FetchRequest(url, **{"retries": 0, **wishes})
    return GuardedHttp(allowed, net.as_network()).fetch(request, deadline=Deadline(10))


def redirect(server: LoopbackServer, path: str, to: str, status: int = 302) -> None:
    for method in ("GET", "POST"):
        server.route(method, path, lambda call: Reply(b"", status, {"Location": to}))


def tls_server(
    authority: Authority, *names: str, **wishes: Any
) -> tuple[TlsServer, list[str | None]]:
    certificate = authority.certificate(*names, **wishes)
    made = TlsServer(certificate)
    made.route("GET", "/fine", lambda call: Reply(b"safe"))
    return made, seen_names(certificate)


def test_tls_checks_the_name_at_the_checked_address(
    net: PretendNetwork, authority: Authority
) -> None:
    made, seen = tls_server(authority, "safe.example")
    net.tls = authority.trusting()
    with made:
        net.name("safe.example", made, ["198.41.0.9"])
        net.name("wrong.example", made, ["198.41.0.10"])
        assert fetch(net, "https://safe.example./fine").body == b"safe"
        assert net.dialled == [("198.41.0.9", 443)]
        assert seen == ["safe.example"]
        with pytest.raises(ProviderError, match=r"\(TLS\) to wrong\.example: Hostname mismatch"):
            fetch(net, "https://wrong.example/fine", retries=2)
        assert len(net.dialled) == 2


def test_tls_of_an_address_checks_the_address(net: PretendNetwork, authority: Authority) -> None:
    made, _ = tls_server(authority, PUBLIC)
    net.tls = authority.trusting()
    with made:
        net.servers[PUBLIC] = net.servers[OTHER] = made
        assert fetch(net, f"https://{PUBLIC}/fine").body == b"safe"
        with pytest.raises(ProviderError, match="IP address mismatch"):
            fetch(net, f"https://{OTHER}/fine")


def test_a_certificate_nobody_vouches_for_is_refused(
    net: PretendNetwork, authority: Authority
) -> None:
    made, _ = tls_server(authority, "safe.example")
    with made:
        net.name("safe.example", made, ["198.41.0.9"])
        with pytest.raises(ProviderError, match=r"no safe connection \(TLS\).*certificate"):
            fetch(net, "https://safe.example/fine")
        net.tls = authority.trusting()
        expired, _ = tls_server(authority, "old.example", is_expired=True)
    with expired:
        net.name("old.example", expired, ["198.41.0.11"])
        with pytest.raises(ProviderError, match="certificate has expired"):
            fetch(net, "https://old.example/fine")


def test_out_of_https_into_http_go_no_secrets(net: PretendNetwork, authority: Authority) -> None:
    made, _ = tls_server(authority, "safe.example")
    net.tls = authority.trusting()
    with made:
        net.name("safe.example", made, ["198.41.0.9"])
        redirect(made, "/down", "http://api.example/fine")
        assert fetch(net, "https://safe.example/down").body == b"fine"
        for secret in ({"headers": {"X-Key": "k"}}, {"params": {"key": "k"}}):
            with pytest.raises(ForbiddenError, match="from https to http"):
                fetch(net, "https://safe.example/down", **secret)
        with pytest.raises(ForbiddenError, match="from https to http"):
            fetch(net, "https://safe.example/down?signature=k")


def test_http_into_https_of_the_same_name_keeps_the_secrets(
    net: PretendNetwork, authority: Authority
) -> None:
    made, _ = tls_server(authority, "up.example")
    net.tls = authority.trusting()
    with made, LoopbackServer() as plain:
        redirect(plain, "/fine", "https://up.example/fine", 301)
        net.name("up.example", None, ["198.41.0.20"], ["198.41.0.21"])
        net.servers |= {"198.41.0.20": plain, "198.41.0.21": made}
        assert fetch(net, "http://up.example/fine", headers={"X-Key": "k"}).body == b"safe"
        assert made.calls[0].headers["x-key"] == "k"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_accepts_and_says_nothing_can_be_left(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/"
        ends_when_cancelled(url)
        with pytest.raises(ProviderTimeoutError):
            GuardedHttp(["127.0.0.1"]).fetch(FetchRequest(url), deadline=Deadline(0.3))


def test_a_connection_that_is_never_made_can_be_left() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.create_connection(full.getsockname()):
            ends_when_cancelled(f"http://127.0.0.1:{full.getsockname()[1]}/")


def test_a_body_over_tls_can_be_left(net: PretendNetwork, authority: Authority) -> None:
    made, _ = tls_server(authority, "safe.example")
    made.route(
        "GET", "/slow", lambda call: Reply(events=(b"x" for _ in iter(lambda: time.sleep(0.1), 1)))
    )
    net.tls = authority.trusting()
    with made:
        net.name("safe.example", made, ["198.41.0.9"])
        ends_when_cancelled("https://safe.example/slow", net.as_network())


def ends_when_cancelled(url: str, network: Network | None = None) -> None:
    deadline, ended = Deadline(20), []

    def call() -> None:
        try:
            GuardedHttp(["127.0.0.1"], network).fetch(FetchRequest(url), deadline=deadline)
        except RAGError as error:
            ended.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    time.sleep(0.4)
    assert not ended
    deadline.cancel()
    thread.join(1.0)
    assert [type(error) for error in ended] == [CancelledError]

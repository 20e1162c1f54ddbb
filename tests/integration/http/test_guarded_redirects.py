"""Where the guard lets a call go: names, rebinding, redirects, TLS, and secrets on the way."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag.core.deadline import Deadline
from rag.core.errors import (
    ForbiddenError,
    InvalidInputError,
    ProviderError,
)
from rag.core.sources import FetchReply, FetchRequest
from rag.providers.http.guard import GuardedHttp
from tests.fakes.fake_network import (
    PUBLIC,
    PretendNetwork,
    port_of,
)
from tests.fakes.loopback import Call, LoopbackServer, Reply

OTHER = "198.41.0.4"
SECRET = "s3cret-Key/+é"


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer() as made:
        made.route("GET", "/fine", lambda call: Reply(b"fine"))
        made.route("POST", "/fine", lambda call: Reply(b"posted"))
        yield made


@pytest.fixture
def net(server: LoopbackServer) -> PretendNetwork:
    made = PretendNetwork()
    made.name("api.example", server)
    made.name("other.example", server, [OTHER])
    return made


def fetch(net: PretendNetwork, url: str, *allowed: str, **wishes: Any) -> FetchReply:
    request = FetchRequest(url, **{"retries": 0, **wishes})
    return GuardedHttp(allowed, net.as_network()).fetch(request, deadline=Deadline(10))


def redirect(server: LoopbackServer, path: str, to: str, status: int = 302) -> None:
    for method in ("GET", "POST"):
        server.route(method, path, lambda call: Reply(b"", status, {"Location": to}))


def test_a_public_name_is_called_at_its_address(
    net: PretendNetwork, server: LoopbackServer
) -> None:
    reply = fetch(net, "http://API.Example.:8080/fine")
    assert (reply.body, reply.url) == (b"fine", "http://api.example:8080/fine")
    assert net.dialled == [(PUBLIC, 8080)]
    assert server.calls[0].headers["host"] == "api.example:8080"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1",
        "http://127.1",
        "http://2130706433",
        "http://0x7f.1",
        "http://0",
        "http://[::1]",
        "http://[::ffff:127.0.0.1]",
        "http://[::ffff:7f00:1]",
        "http://[64:ff9b::7f00:1]",
        "http://[2002:7f00:1::]",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/",
        "http://10.0.0.1",
        "http://100.64.0.1",
        "http://[fe80::1]",
        "http://127。0。0。1",
    ],
)
def test_an_address_that_is_not_public_is_never_called(net: PretendNetwork, url: str) -> None:
    with pytest.raises(ForbiddenError, match="RAG_FETCH_HOSTS"):
        fetch(net, url)
    assert (net.dialled, net.looked_up) == ([], [])


def test_localhost_as_this_machine_knows_it_is_refused(server: LoopbackServer) -> None:
    url = f"http://localhost:{port_of(server)}/fine"
    for spelling in (
        url,
        url.replace("localhost", "LOCALHOST."),
        url.replace("localhost", "①27.1"),
    ):
        with pytest.raises((ForbiddenError, InvalidInputError)):
            GuardedHttp(()).fetch(FetchRequest(spelling), deadline=Deadline(5))
    assert server.calls == []
    reply = GuardedHttp(()).fetch(FetchRequest(url, hosts=["localhost"]), deadline=Deadline(5))
    assert reply.body == b"fine"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "//example.org",
        "ftp://example.org",
        "file:///etc/passwd",
        "gopher://a:70/_x",
        "http://",
        "http:///x",
        "http://a:0",
        "http://a:65536",
        "http://a:x",
        "http://a:-1",
        "http://a\x00b",
        "http://a/\nb",
        "http://a%2eb/",
        "http://[fe80::1%25eth0]/",
        "http://[::1",
        "http://a b/",
        "http://0177.0.0.1/",
        "javascript:alert(1)",
        "http://a..b/",
    ],
)
def test_what_is_no_web_address_is_refused(net: PretendNetwork, url: str) -> None:
    with pytest.raises(InvalidInputError):
        fetch(net, url)
    assert net.dialled == []


@pytest.mark.parametrize(
    "url",
    [
        "http://u:hidden-pw@api.example/",
        "http://hidden-pw@api.example",
        "http://api.example\\@hidden-pw/",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(net: PretendNetwork, url: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        fetch(net, url)
    assert "hidden-pw" not in str(caught.value)


def test_each_address_of_a_name_is_checked(net: PretendNetwork, server: LoopbackServer) -> None:
    net.name("mixed.example", server, [PUBLIC, "10.0.0.1"])
    with pytest.raises(ForbiddenError, match=r"mixed\.example leads to 10\.0\.0\.1"):
        fetch(net, "http://mixed.example/fine")
    net.name("six.example", server, ["::ffff:169.254.169.254"])
    with pytest.raises(ForbiddenError, match="add 169.254.169.254"):
        fetch(net, "http://six.example/fine", "six.example")
    assert net.dialled == []


def test_a_name_that_changes_its_mind_is_called_where_it_was_checked(
    net: PretendNetwork, server: LoopbackServer
) -> None:
    net.name("rebind.example", server, [PUBLIC], ["127.0.0.1"])
    assert fetch(net, "http://rebind.example/fine").body == b"fine"
    assert (net.looked_up, net.dialled) == (["rebind.example"], [(PUBLIC, 80)])
    with pytest.raises(ForbiddenError, match=r"leads to 127\.0\.0\.1"):
        fetch(net, "http://rebind.example/fine")
    assert len(net.dialled) == 1


def test_the_next_address_is_tried_when_one_is_silent(
    net: PretendNetwork, server: LoopbackServer
) -> None:
    net.name("two.example", None, ["203.0.114.1", OTHER])
    assert fetch(net, "http://two.example/fine").body == b"fine"
    assert [address for address, _ in net.dialled] == ["203.0.114.1", OTHER]


def test_what_is_listed_is_called_although_it_is_private(
    net: PretendNetwork, server: LoopbackServer
) -> None:
    net.name("intranet", server, ["10.1.2.3"])
    assert fetch(net, "http://intranet/fine", "intranet").body == b"fine"
    assert fetch(net, "http://intranet/fine", "10.0.0.0/8").body == b"fine"
    assert fetch(net, "http://intranet/fine", hosts=["10.1.2.3"]).body == b"fine"
    with pytest.raises(ForbiddenError):
        fetch(net, "http://intranet/fine", "10.1.2.4")


def test_a_redirect_is_followed_to_its_end(net: PretendNetwork, server: LoopbackServer) -> None:
    redirect(server, "/a", "b")
    redirect(server, "/b", "//other.example/fine?x=1")
    reply = fetch(net, "http://api.example/a", params={"q": "1"})
    assert (reply.body, reply.url) == (b"fine", "http://other.example/fine?x=1")
    assert net.looked_up == ["api.example", "api.example", "other.example"]
    assert [call.query for call in server.calls] == [{"q": "1"}, {}, {"x": "1"}]


@pytest.mark.parametrize(
    "to",
    [
        "http://169.254.169.254/latest",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://0x7f.1/",
        "http://inside.example/",
        "//10.0.0.1/x",
    ],
)
def test_a_redirect_to_a_private_address_is_refused(
    net: PretendNetwork, server: LoopbackServer, to: str
) -> None:
    net.name("inside.example", server, ["192.168.0.1"])
    redirect(server, "/go", to)
    with pytest.raises(ForbiddenError, match="no address of the public internet"):
        fetch(net, "http://api.example/go", retries=3)
    assert len(net.dialled) == 1


@pytest.mark.parametrize(
    "to", ["file:///etc/passwd", "gopher://x/", "http://u:p@other.example/", "http://[bad"]
)
def test_a_redirect_to_no_web_address_is_refused(
    net: PretendNetwork, server: LoopbackServer, to: str
) -> None:
    redirect(server, "/go", to)
    with pytest.raises((InvalidInputError, ProviderError)):
        fetch(net, "http://api.example/go")
    assert len(net.dialled) == 1


def test_a_name_that_is_rebound_between_redirects_is_refused(
    net: PretendNetwork, server: LoopbackServer
) -> None:
    net.name("rebind.example", server, [PUBLIC], ["127.0.0.1"])
    redirect(server, "/go", "/fine")
    with pytest.raises(ForbiddenError):
        fetch(net, "http://rebind.example/go")
    assert net.dialled == [(PUBLIC, 80)]


def test_a_loop_of_redirects_ends(net: PretendNetwork, server: LoopbackServer) -> None:
    redirect(server, "/loop", "/loop")
    with pytest.raises(ProviderError, match=r"api\.example redirects more than 5 times"):
        fetch(net, "http://api.example/loop", retries=3)
    assert len(server.calls) == 6


def test_secrets_stay_with_their_origin(net: PretendNetwork, server: LoopbackServer) -> None:
    redirect(server, "/here", "/fine")
    redirect(server, "/away", "http://other.example/fine")
    headers = {"Authorization": "Bearer x", "X-Api-Key": "k", "Cookie": "c", "Accept": "text/plain"}
    fetch(net, "http://api.example/here", headers=headers)
    assert server.calls[1].headers["authorization"] == "Bearer x"
    server.calls.clear()
    fetch(net, "http://api.example/away", headers=headers, params={"key": "k"})
    sent = server.calls[1]
    assert not {"authorization", "x-api-key", "cookie"} & set(sent.headers)
    assert (sent.headers["accept"], sent.query) == ("text/plain", {})


def test_another_port_is_another_origin(net: PretendNetwork, server: LoopbackServer) -> None:
    redirect(server, "/go", "http://api.example:8080/fine")
    fetch(net, "http://api.example/go", headers={"Authorization": "Bearer x"})
    assert "authorization" not in server.calls[1].headers


@pytest.mark.parametrize(
    ("status", "method"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")]
)
def test_a_redirected_post_keeps_its_body_only_where_it_should(
    net: PretendNetwork, server: LoopbackServer, status: int, method: str
) -> None:
    redirect(server, "/go", "/fine", status)
    fetch(net, "http://api.example/go", method="POST", json={"a": 1})
    assert server.calls[1].method == method
    assert server.calls[1].body == (b'{"a": 1}' if method == "POST" else b"")


def test_a_body_does_not_go_to_another_server(net: PretendNetwork, server: LoopbackServer) -> None:
    redirect(server, "/go", "http://other.example/fine", 307)
    with pytest.raises(ForbiddenError, match=r"and its body to another server, other\.example"):
        fetch(net, "http://api.example/go", method="POST", json={"a": 1})


def test_no_secret_is_in_an_error_or_a_log(
    net: PretendNetwork, server: LoopbackServer, caplog: pytest.LogCaptureFixture
) -> None:
    # The settings keep the clients' chatter down; who turns it up must not be told secrets either.
    for name in ("", "httpx2", "httpcore2"):
        caplog.set_level(logging.DEBUG, logger=name)

    def parrot(call: Call) -> Reply:
        return Reply({"you sent": [call.headers, call.query]}, 401)

    server.route("GET", "/parrot", parrot)
    pair = base64.b64encode(f"user:{SECRET}".encode()).decode()
    for wishes in (
        {"headers": {"Authorization": f"Bearer {SECRET}"}},
        {"headers": {"Authorization": f"Basic {pair}"}},
        {"headers": {"X-Api-Key": SECRET}},
        {"params": {"key": SECRET}},
    ):
        with pytest.raises(ProviderError, match="HTTP 401") as caught:
            fetch(net, "http://api.example/parrot", **wishes)
        error: BaseException | None = caught.value
        while error is not None:
            for spelling in (SECRET, pair, "s3cret"):
                assert spelling not in str(error), wishes
            error = error.__cause__ or error.__context__
    with pytest.raises(ProviderError):
        fetch(net, f"http://nowhere.example/s3cret?key={SECRET}")
    assert "s3cret" not in caplog.text
    assert "api.example" in caplog.text


def test_the_guard_itself_shows_no_secret_when_it_is_printed(tmp_path: Path) -> None:
    with pytest.raises(ForbiddenError) as caught:
        GuardedHttp(()).fetch(
            FetchRequest(f"http://10.0.0.1/{SECRET}", headers={"X": SECRET}), deadline=Deadline(5)
        )
    assert SECRET not in repr(caught.value.as_dict())

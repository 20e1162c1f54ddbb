"""The ``api`` source over the guarded fetch: its contract, its requests, and who may be called."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import (
    ForbiddenError,
    InvalidInputError,
    LimitError,
    ProviderError,
    ProviderTimeoutError,
    UnknownNameError,
)
from rag.core.options import read_options
from rag.core.plugins import PLUGINS
from rag.core.sources import FetchReply, FetchRequest, SourceQuery, SourceResult
from rag.plugins.contract_source import Ask, LentPorts, SourceContract
from rag.plugins.sources.api import ApiSource
from rag.providers.http.guard import GuardedHttp
from tests.fakes.loopback import Call, Fault, LoopbackServer, Reply

SECRETS = {"crm": "s3cret-t0ken", "lines": "s3cret-t0ken\n"}


class GuardedPorts(LentPorts):
    """The house's network as sources get it, with a list of private hosts."""

    def __init__(self, allowed: tuple[str, ...] = ("127.0.0.1",)) -> None:
        super().__init__(SECRETS)
        self._allowed = allowed

    def fetch(self, request: FetchRequest, *, deadline: Deadline) -> FetchReply:
        return GuardedHttp(self._allowed).fetch(request, deadline=deadline)


def search(call: Call) -> Reply:
    text = call.query.get("q", "")
    if text == "slow":
        return Reply(events=(5.0, b"[]"))
    if text == "fail":
        return Reply({"error": SECRETS["crm"]}, 500)
    found = [{"text": "保修两年。", "id": 1, "s": 0.5}, {"text": "Two years.", "id": 2, "s": 0.25}]
    return Reply({"found": found if text == "warranty" else []})


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer() as made:
        made.route("GET", "/search", search)
        made.route("GET", "/.*", lambda call: Reply([call.path]))
        made.route("POST", "/.*", lambda call: Reply([call.path]))
        yield made


class TestApiSource(SourceContract):
    plugin = ApiSource
    secrets = SECRETS
    has_access_rules = False

    @pytest.fixture(autouse=True)
    def _serve(self, server: LoopbackServer) -> None:
        self.options = {
            "endpoint": server.origin + "/search",
            "params": {"q": "{user_query}"},
            "auth": "bearer",
            "secret": "crm",
            "items": "found",
            "fields": {"content": "text", "id": "id", "score": "s"},
            "retries": 1,
        }

    def ports(self) -> GuardedPorts:
        return GuardedPorts()

    def query_with_hits(self) -> str:
        return "warranty"

    def query_without_hits(self) -> str:
        return "nothing"

    def slow_query(self) -> str:
        return "slow"

    def failing_query(self) -> Ask:
        return Ask("fail")


def ask(
    server: LoopbackServer,
    path: str = "/items",
    text: str = "退货",
    values: dict[str, Any] | None = None,
    **options: Any,
) -> SourceResult:
    chosen = {"endpoint": server.origin + path, "retries": 0, **options}
    source = ApiSource(read_options(ApiSource.Options, chosen, of="api"))
    return source.retrieve(question(text, values or {}))


def question(
    text: str, values: dict[str, Any], ports: Any = None, timeout_s: float = 10.0
) -> SourceQuery:
    return SourceQuery(
        text,
        Scope.operator(),
        Deadline(timeout_s),
        ports or GuardedPorts(),
        {"user_query": text, **values},
    )


def test_it_is_filed_under_its_name() -> None:
    assert PLUGINS.get("source", "api") is ApiSource


def test_endpoint_and_params_are_enough(server: LoopbackServer) -> None:
    result = ask(
        server,
        params={"query": "{user_query}", "size": 5, "deep": True, "none": "{n}"},
        values={"n": None},
    )
    assert result.hits[0].text == "/items"
    assert server.calls[0].query == {"query": "退货", "size": "5", "deep": "true"}
    assert server.calls[0].headers["accept"] == "application/json"


def test_values_keep_their_place_in_path_and_query(server: LoopbackServer) -> None:
    values = {"topic": "a/../b?x=1#y", "n": 3, "and": "1&admin=true"}
    ask(server, "/t/{topic}/{n}/v{n}?q={user_query}&r={and}", values=values)
    target = server.calls[0]
    assert target.path == "/t/a%2F..%2Fb%3Fx%3D1%23y/3/v3"
    assert target.query == {"q": "退货", "r": "1&admin=true"}


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_a_value_cannot_climb_out_of_the_path(server: LoopbackServer, value: str) -> None:
    with pytest.raises(InvalidInputError, match=r"value of \{topic\} cannot stand in the path"):
        ask(server, "/a/{topic}/c", values={"topic": value})
    assert server.calls == []


def test_a_body_keeps_the_types_of_its_values(server: LoopbackServer) -> None:
    body = {
        "query": {"text": "{user_query}"},
        "size": "{n}",
        "note": "n is {n}",
        "ids": "{ids}",
        "{n}": None,
    }
    ask(server, method="POST", body=body, values={"n": 3, "ids": [1, "二"]})
    assert server.calls[0].json == {
        "query": {"text": "退货"},
        "size": 3,
        "note": "n is 3",
        "ids": [1, "二"],
        "{n}": None,
    }


def test_an_empty_body_is_a_body_and_none_is_none(server: LoopbackServer) -> None:
    ask(server, method="POST", body={})
    ask(server, method="POST")
    assert [call.body for call in server.calls] == [b"{}", b""]


def test_a_value_in_a_header_cannot_start_another(server: LoopbackServer) -> None:
    ask(server, headers={"X-Topic": "t-{topic}"}, values={"topic": "a"})
    assert server.calls[0].headers["x-topic"] == "t-a"
    with pytest.raises(InvalidInputError, match="“X-Topic” holds a line break"):
        ask(server, headers={"X-Topic": "{topic}"}, values={"topic": "a\r\nX-Admin: 1"})
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("options", "header"),
    [
        ({"auth": "bearer"}, ("authorization", "Bearer s3cret-t0ken")),
        ({"auth": "header", "auth_name": "X-Api-Key"}, ("x-api-key", "s3cret-t0ken")),
        (
            {"auth": "basic", "auth_user": "me"},
            ("authorization", "Basic " + base64.b64encode(b"me:s3cret-t0ken").decode()),
        ),
        ({"auth": "bearer", "secret": "lines"}, ("authorization", "Bearer s3cret-t0ken")),
    ],
)
def test_a_secret_is_sent_as_it_is_wanted(
    server: LoopbackServer, options: dict[str, str], header: tuple[str, str]
) -> None:
    ask(server, **{"secret": "crm", **options})
    assert server.calls[0].headers[header[0]] == header[1]


def test_a_secret_may_be_a_parameter(server: LoopbackServer) -> None:
    ask(server, auth="query", auth_name="key", secret="crm", params={"q": "1"})
    assert server.calls[0].query == {"q": "1", "key": "s3cret-t0ken"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"auth": "bearer"}, "“secret” is needed"),
        ({"auth": "header", "secret": "crm"}, "“auth_name” is needed"),
        ({"auth": "basic", "secret": "crm"}, "“auth_user” is needed"),
        ({"secret": "crm"}, "“auth” is none"),
        ({"auth": "bearer", "secret": "crm", "headers": {"authorization": "x"}}, "set twice"),
        ({"auth": "query", "auth_name": "k", "secret": "crm", "params": {"K": "x"}}, "set twice"),
        ({"method": "DELETE"}, "Known: GET, POST"),
        ({"fields": {"contents": "x"}}, "Known: content"),
        ({"items": "a["}, "does not work"),
        ({"params": {"a": ["b"]}}, "“a” in params is neither"),
        ({"headers": {"a": {"b": "c"}}}, "“a” in headers is neither"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    server: LoopbackServer, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ask(server, **options)
    assert server.calls == []


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "api.example/x",
        "ftp://a/x",
        "file:///etc/passwd",
        "http://",
        "{user_query}",
        "{scheme}://a/x",
        "http://{host}/x",
        "http://api.{zone}.example/",
        "http://a:{port}/x",
        "http://u:{pw}@a/",
        "https://a{x}",
    ],
)
def test_the_host_of_an_endpoint_is_fixed(endpoint: str) -> None:
    with pytest.raises(InvalidInputError, match="no web address with a fixed host"):
        ApiSource(ApiSource.Options(endpoint=endpoint))


@given(value=st.text(max_size=20))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_value_changes_where_the_request_goes(server: LoopbackServer, value: str) -> None:
    server.calls.clear()
    try:
        ask(server, "/a/{v}/b?q={v}", params={"p": "{v}"}, values={"v": value})
    except InvalidInputError:
        return
    (call,) = server.calls
    assert call.path.count("/") == 3
    assert (call.path[:3], call.path[-2:]) == ("/a/", "/b")
    assert {**{"p": "", "q": ""}, **call.query} == {"p": value, "q": value}


def test_a_missing_value_and_a_missing_secret_are_named(server: LoopbackServer) -> None:
    with pytest.raises(UnknownNameError, match=r"placeholder “token_id”\. Known: .*user_query"):
        ask(server, params={"t": "{token_id}"})
    with pytest.raises(InvalidInputError, match=r"“\{x\.__class__\}” is no placeholder"):
        ask(server, params={"t": "{x.__class__}"}, values={"x": 1})
    with pytest.raises(UnknownNameError, match="secret “nope”"):
        ask(server, auth="bearer", secret="nope")


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:9/x", "http://169.254.169.254/latest/meta-data"]
)
def test_a_private_endpoint_is_refused_unless_it_is_listed(endpoint: str) -> None:
    with pytest.raises(ForbiddenError, match="RAG_FETCH_HOSTS"):
        ApiSource(ApiSource.Options(endpoint=endpoint)).retrieve(
            question("x", {}, GuardedPorts(()))
        )


def test_a_redirect_into_the_machine_is_refused(server: LoopbackServer) -> None:
    to = "http://169.254.169.254/latest/meta-data"
    server.fail(Fault(302, b"", {"Location": to}))
    with pytest.raises(ForbiddenError, match=r"169\.254\.169\.254"):
        ask(server, "/go")


def test_no_content_is_an_empty_result(server: LoopbackServer) -> None:
    server.fail(Fault(204))
    assert ask(server) == SourceResult()


def test_a_page_a_flood_and_a_bad_status_are_told_apart(server: LoopbackServer) -> None:
    server.fail(Fault(200, b"<html>log in</html>", {"Content-Type": "text/html"}))
    with pytest.raises(ProviderError, match=r"not JSON \(text/html, 19 bytes\)"):
        ask(server)
    server.fail(Fault(200, b"[" + b" " * 5000 + b"]"))
    with pytest.raises(LimitError, match="1,000 bytes"):
        ask(server, max_bytes=1000)
    server.fail(Fault(403, {"message": "s3cret-t0ken may not"}))
    with pytest.raises(ProviderError, match=r"HTTP 403: .*\*\*\* may not") as caught:
        ask(server, auth="bearer", secret="crm")
    assert "s3cret" not in str(caught.value)


def test_an_own_timeout_ends_the_call_before_the_deadline(server: LoopbackServer) -> None:
    server.fail(Fault(delay_s=30))
    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError, match="within 0.3 s"):
        ask(server, timeout_s=0.3)
    assert time.monotonic() - started < 1.0


def test_a_busy_api_is_asked_again(server: LoopbackServer) -> None:
    server.fail(Fault(429, b"", {"Retry-After": "0"}), Fault(503))
    assert ask(server, retries=2).hits[0].text == "/items"
    assert len(server.calls) == 3

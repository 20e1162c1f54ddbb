"""What comes in by HTTP: read in UTF-8, measured, and refused with a sentence."""

from __future__ import annotations

import asyncio
import errno
import json
from io import BytesIO
from typing import Any

import pytest
from django.core.exceptions import SuspiciousOperation
from django.urls import Resolver404, resolve, set_urlconf

from project import request_limits
from project.request_limits import MB, CheckedRequest, LimitedASGIHandler

FORM = b"multipart/form-data; boundary=x"


def scope_of(path: str = "/healthz", query: bytes = b"", **headers: bytes) -> dict[str, Any]:
    """Return the scope of a POST; ``content_type`` stands for Content-Type."""
    named = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": query,
        "headers": [(b"host", b"localhost"), *named],
    }


def request_of(**headers: bytes) -> CheckedRequest:
    return CheckedRequest(scope_of(**headers), BytesIO())


def serve(
    scope: dict[str, Any], *pieces: bytes | BaseException, ends: bool = True
) -> tuple[int, dict[str, Any], int]:
    """Return status, error and how many pieces of the body were asked for."""
    coming, sent, n_read = iter(pieces or (b"",)), list[Any](), 0

    async def receive() -> Any:
        nonlocal n_read
        piece = next(coming, None)
        if piece is None:
            await asyncio.Event().wait()
        if isinstance(piece, BaseException):
            raise piece
        n_read += 1
        return {
            "type": "http.request",
            "body": piece,
            "more_body": not ends or n_read < len(pieces),
        }

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(LimitedASGIHandler()(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], json.loads(body)["error"], n_read


@pytest.mark.parametrize("charset", ["utf-8", "UTF8", "us-ascii", "no-such-charset"])
@pytest.mark.parametrize("kind", [b"application/json", FORM])
def test_utf_8_and_what_is_no_charset_are_read_as_utf_8(charset: str, kind: bytes) -> None:
    request = request_of(content_type=kind + b"; charset=" + charset.encode())
    assert request.content_type == kind.split(b";")[0].decode()
    assert (request.encoding or "utf-8").lower() in ("utf-8", "utf8", "us-ascii")


@pytest.mark.parametrize(
    "charset", [b"zlib", b"hex", b"undefined", b"idna", b"unicode_escape", b"utf-7", b"gbk"]
)
def test_another_charset_is_ignored_for_json_and_refused_for_forms(charset: bytes) -> None:
    assert request_of(content_type=b"application/json; charset=" + charset).encoding == "utf-8"
    with pytest.raises(SuspiciousOperation):
        request_of(content_type=FORM + b"; charset=" + charset)
    status, error, _ = serve(scope_of(content_type=FORM + b"; charset=" + charset))
    assert (status, error["code"]) == (400, "malformed")


@pytest.mark.parametrize(
    "kind", [b"text/plain; a*=nonsense''x", b"text/plain; a*=undefined''%41", b"a; a*=idna''%ff"]
)
def test_a_type_of_content_that_cannot_be_read_is_400(kind: bytes) -> None:
    status, error, _ = serve(scope_of(content_type=kind))
    assert (status, error["message"]) == (400, "The request cannot be read.")


def test_an_address_that_is_no_utf_8_is_400_in_the_language_asked_for() -> None:
    status, error, _ = serve(scope_of(query=b"a=\xff", accept_language=b"zh-hans"))
    assert (status, error["code"]) == (400, "malformed")
    assert error["message"] != "The request cannot be read."


def test_a_cookie_that_spells_a_nul_is_none() -> None:
    request = request_of(cookie=b'sessionid="\\000abcdefgh"; csrftoken=abc; django_language="en"')
    assert request.COOKIES == {"csrftoken": "abc", "django_language": "en"}


@pytest.mark.parametrize(("kind", "limit"), [(b"application/json", 40), (FORM, 1024)])
def test_a_body_that_says_it_is_too_long_is_not_read_at_all(kind: bytes, limit: int) -> None:
    length = str(limit * MB + 1).encode()
    status, error, n_read = serve(scope_of(content_type=kind, content_length=length), b"x")
    assert (status, error["code"], n_read) == (413, "too_large", 0)
    assert error["message"] == f"The request is larger than {limit} MB."


def test_a_body_that_does_not_say_so_is_read_up_to_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_limits, "MAX_BODY", 3 * MB)
    status, error, n_read = serve(scope_of(), *[bytes(MB)] * 9, ends=False)
    assert (status, error["code"], n_read) == (413, "too_large", 4)


def test_a_body_of_which_nothing_more_comes_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "BODY_TIMEOUT_S", 0.01)
    status, error, n_read = serve(scope_of(), b"{", ends=False)
    assert (status, error["code"], n_read) == (408, "timeout", 1)


def test_after_the_body_nobody_is_hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "BODY_TIMEOUT_S", 0.01)

    async def wait() -> Any:
        messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> Any:
            message = next(messages, None)
            if message is None:
                await asyncio.sleep(0.03)
            return message or {"type": "http.disconnect"}

        body = request_limits.LimitedBody(scope_of(), receive)
        return [await body(), await body()][1]

    assert asyncio.run(wait()) == {"type": "http.disconnect"}


def test_a_body_that_finds_no_room_on_the_disk_is_507() -> None:
    status, error, _ = serve(scope_of(), OSError(errno.ENOSPC, "No space left on device"))
    assert (status, error["code"]) == (507, "disk_full")


def test_a_websocket_is_turned_away() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(
        LimitedASGIHandler()({"type": "websocket", "headers": []}, asyncio.Event().wait, send)
    )
    assert sent == [{"type": "websocket.close"}]


def test_a_body_for_the_memory_comes_in_one_piece_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_limits, "MAX_BODY", 1 * MB)

    def read(*pieces: bytes) -> Any:
        coming = iter(pieces)

        async def receive() -> Any:
            piece = next(coming)
            return {"type": "http.request", "body": piece, "more_body": piece is not pieces[-1]}

        return asyncio.run(request_limits.read_limited_body(scope_of(), receive))

    assert read(b"ab", b"", b"cd") == b"abcd"
    assert read(bytes(MB), b"x").status_code == 413


def test_an_address_is_resolved_once_and_one_that_is_made_up_is_not_kept() -> None:
    request_limits._resolved.cache_clear()
    handler, long = LimitedASGIHandler(), "/api/files/7" + "0" * 300
    for path in ("/healthz", "/healthz", "/api/files/7", "/api/files/8", long, long):
        request = CheckedRequest(scope_of(path), BytesIO())
        match = handler.resolve_request(request)
        assert (request.resolver_match, match.route) == (match, resolve(path).route)
        assert match.kwargs == resolve(path).kwargs
    told = request_limits._resolved.cache_info()
    assert (told.hits, told.currsize) == (1, 3)


def test_another_set_of_addresses_is_heeded() -> None:
    request = CheckedRequest(scope_of("/healthz"), BytesIO())
    request.urlconf = "agents.api.routes"
    with pytest.raises(Resolver404):
        LimitedASGIHandler().resolve_request(request)
    set_urlconf(None)

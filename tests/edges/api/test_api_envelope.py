"""The middleware below /api/, sync and async alike, and what it leaves alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.http import HttpResponse, HttpResponseNotAllowed, JsonResponse, StreamingHttpResponse
from django.test import AsyncClient, Client, RequestFactory

from project.middleware import ApiEnvelope
from rag.services.access.api_keys import create_key
from rag.services.access.rate_limits import RateLimit
from tests.edges.api_client import error_of
from tests.factories import UserFactory


def answered(response: Any, path: str = "/api/x", is_async: bool = False, quota: Any = None) -> Any:
    """Return what the middleware makes of a response."""
    request: Any = RequestFactory().get(path)
    if quota is not None:
        request.rag_quota = quota
    if not is_async:
        return ApiEnvelope(lambda request: response)(request)

    async def respond(request: Any) -> Any:
        return response

    made: Any = ApiEnvelope(respond)
    return asyncio.run(made(request))


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 413, 429, 500, 503])
def test_every_error_becomes_json_with_its_status(status: int, is_async: bool) -> None:
    response = answered(HttpResponse("<h1>No</h1>", status=status), is_async=is_async)
    error = error_of(response_like(response), status)
    assert "<h1>" not in json.dumps(error)


def response_like(response: Any) -> Any:
    response.json = lambda: json.loads(response.content)
    return response


@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_json_or_no_error_is_left_as_it_is(is_async: bool) -> None:
    for response in (
        JsonResponse({"error": {"type": "of another API"}}, status=404),
        HttpResponse("<p>docs</p>"),
        StreamingHttpResponse(iter([b"a"]), content_type="text/event-stream"),
    ):
        assert answered(response, is_async=is_async) is response


def test_other_addresses_are_left_alone() -> None:
    for path in ("/", "/admin/", "/apis/x", "/api"):
        response = HttpResponse("<h1>No</h1>", status=404)
        assert answered(response, path) is response


def test_headers_that_say_what_to_do_are_kept() -> None:
    refused = HttpResponseNotAllowed(["GET", "POST"])
    refused["Retry-After"] = "7"
    refused["X-Inner"] = "secret"
    response = answered(refused)
    assert response["Allow"] == "GET, POST"
    assert response["Retry-After"] == "7"
    assert "X-Inner" not in response


def test_the_limit_is_on_every_answer() -> None:
    for response in (HttpResponse("x"), HttpResponse("x", status=404)):
        told = answered(response, quota=RateLimit(limit=10, used=12, reset_s=3))
        assert told["X-RateLimit-Limit"] == "10"
        assert told["X-RateLimit-Remaining"] == "0"
        assert told["X-RateLimit-Reset"] == "3"
    assert "X-RateLimit-Limit" not in answered(HttpResponse("x"))


def test_in_debug_a_fault_keeps_its_page(settings: Any) -> None:
    settings.DEBUG = True
    response = HttpResponse("trace", status=500)
    assert answered(response) is response


@pytest.mark.django_db
async def test_the_asgi_way_gives_the_same_answers() -> None:
    _, secret = await sync_to_async(lambda: create_key(user=UserFactory(), name="k"))()
    headers = {"authorization": f"Bearer {secret}"}
    client = AsyncClient()
    found = await client.get("/api/stores", headers=headers)
    assert (found.status_code, found["X-RateLimit-Remaining"]) == (200, "599")
    assert found.json() == {"next": None, "results": []}
    error_of(await client.get("/api/none", headers=headers), 404)
    error_of(await client.get("/api/rag/retrieve", headers=headers), 405)
    body = json.dumps({"query": "x", "stores": ["none"]})
    sent = await client.post(
        "/api/rag/retrieve", body, content_type="application/json", headers=headers
    )
    error_of(sent, 404)
    error_of(await client.get("/api/stores"), 401)


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/admin/login/", "/api/rag/search", "/v1/models"])
def test_an_unknown_host_is_told_by_name_with_the_setting(client: Client, path: str) -> None:
    refused = client.get(path, headers={"Host": "kb.example.org"})
    assert refused.status_code == 400
    told = refused.json()["error"]
    assert "kb.example.org" in told["message"] and "ALLOWED_HOSTS" in str(told)
    chinese = client.get(path, headers={"Host": "a.example", "Accept-Language": "zh-hans"})
    assert "不是本站的主机名" in chinese.json()["error"]["message"]

"""Habits of HTTP clients: slashes, HEAD, OPTIONS, CORS, compression, conditional and ranged reads."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from django.test import Client

from tests.edges.api_client import WRITER, KeyClient, client_for, error_of, ok
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db
ORIGIN = "https://app.example"


@pytest.fixture
def client() -> KeyClient:
    return client_for(UserFactory(permissions=WRITER))


@pytest.mark.parametrize(
    "address", ["/api/stores/", "/v1/models/", "/healthz/", "/api/openapi.json/"]
)
def test_a_slash_at_the_end_is_forgiven(client: KeyClient, address: str) -> None:
    ok(client.get(address))
    ok(client.get(address.rstrip("/")))


def test_a_body_comes_through_an_address_with_a_slash(client: KeyClient) -> None:
    error_of(client.send("post", "/api/rag/ask/", {"query": "x", "stores": ["none"]}), 404)
    assert client.get("/admin").status_code == 301


@pytest.mark.parametrize(
    "address",
    ["/api/stores", "/v1/models", "/api/usage", "/api/openapi.json", "/api/docs", "/readyz"],
)
def test_head_is_answered_wherever_get_is(client: KeyClient, address: str) -> None:
    got, asked = client.get(address), client.head(address)
    assert asked.status_code == got.status_code
    assert asked["Content-Type"] == got["Content-Type"] and asked.content == b""


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("/api/rag/ask", {"POST", "OPTIONS"}),
        ("/v1/models", {"GET", "HEAD", "OPTIONS"}),
        ("/api/usage", {"GET", "HEAD", "OPTIONS"}),
        ("/api/stores", {"GET", "HEAD", "OPTIONS", "POST"}),
    ],
)
def test_options_tell_what_can_be_done(client: KeyClient, address: str, allowed: set[str]) -> None:
    told = client.options(address)
    assert told.status_code in (200, 204)
    assert set(told["Allow"].split(", ")) == allowed


@pytest.mark.parametrize(
    "address", ["/api/stores", "/api/flows", "/api/flows/none/runs", "/v1/models"]
)
def test_a_method_that_nobody_knows_is_405(client: KeyClient, address: str) -> None:
    for method in ("TRACE", "PUT", "BREW"):
        assert client.generic(method, address).status_code == 405


def test_pages_of_listed_origins_may_call_with_a_key_and_no_others(
    client: KeyClient, settings: Any
) -> None:
    asked = {"origin": ORIGIN, "access-control-request-method": "POST"}
    asked["access-control-request-headers"] = "authorization,x-stainless-os,idempotency-key"
    assert "Access-Control-Allow-Origin" not in Client().options("/api/rag/ask", headers=asked)
    settings.CORS_ALLOWED_ORIGINS = [ORIGIN]
    told = Client().options("/api/rag/ask", headers=asked)
    assert told["Access-Control-Allow-Origin"] == ORIGIN
    assert {"authorization", "x-stainless-os", "idempotency-key"} <= set(
        told["Access-Control-Allow-Headers"].split(", ")
    )
    got = client.get("/api/stores", headers={"origin": ORIGIN})
    assert got["Access-Control-Allow-Origin"] == ORIGIN
    assert "Access-Control-Allow-Credentials" not in got
    assert "X-RateLimit-Remaining" in got["Access-Control-Expose-Headers"]
    for address, origin in (("/api/stores", "https://evil.example"), ("/admin/login/", ORIGIN)):
        other = client.get(address, headers={"origin": origin})
        assert "Access-Control-Allow-Origin" not in other


def test_json_is_packed_and_pages_with_tokens_are_not() -> None:
    packing = Client(headers={"accept-encoding": "gzip"})
    got = packing.get("/api/openapi.json")
    assert got["Content-Encoding"] == "gzip" and "Accept-Encoding" in got["Vary"]
    whole = Client().get("/api/openapi.json").content
    assert json.loads(gzip.decompress(got.content)) == json.loads(whole)
    assert len(got.content) < len(whole) / 5
    for address in ("/api/docs", "/admin/login/", "/healthz"):
        assert "Content-Encoding" not in packing.get(address)

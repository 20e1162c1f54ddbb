"""Who gets in: keys in two spellings, cookies with their token, limits, and refusals that tell."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from rag import models
from rag.services.access.api_keys import create_key, revoke_key
from tests.edges.api_client import WRITER, KeyClient, client_for, error_of, ok
from tests.factories import StoreFactory, UserFactory

pytestmark = pytest.mark.django_db
RETRIEVE = "/api/rag/retrieve"
ADDRESSES = [
    ("get", "/api/stores"),
    ("get", "/api/files"),
    ("get", "/api/chunks/1"),
    ("post", RETRIEVE),
]


@pytest.mark.parametrize(("method", "address"), ADDRESSES)
def test_without_credentials_both_frameworks_say_401(method: str, address: str) -> None:
    response = getattr(Client(), method)(address)
    error = error_of(response, 401)
    assert error["code"] == "unauthenticated"
    assert "Authorization: Bearer KEY" in error["hint"]
    assert response["WWW-Authenticate"] == "Bearer"
    assert "X-RateLimit-Limit" not in response


@pytest.mark.parametrize("scheme", ["Bearer", "Token", "bearer", "TOKEN"])
def test_both_spellings_open_both_frameworks(scheme: str) -> None:
    store = StoreFactory(owner=UserFactory())
    _, secret = create_key(user=store.owner, name="k")
    client = Client(headers={"authorization": f"{scheme} {secret}"})
    assert ok(client.get("/api/stores"))["results"][0]["id"] == store.pk
    body = {"query": "x", "stores": ["no such"]}
    error_of(client.post(RETRIEVE, body, content_type="application/json"), 404)


@pytest.mark.parametrize(("method", "address"), ADDRESSES)
@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Bearer nonsense", "Token x y", "Bearer ü"]
)
def test_a_wrong_key_is_told_in_both(method: str, address: str, header: str) -> None:
    response = getattr(Client(headers={"authorization": header}), method)(address)
    assert error_of(response, 401)["message"] == "The key is not known."
    assert response["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(("method", "address"), ADDRESSES)
def test_revoked_expired_and_switched_off_are_told_apart(method: str, address: str) -> None:
    user = UserFactory()
    key, secret = create_key(user=user, name="k")
    client = KeyClient(secret)

    def told() -> str:
        return str(error_of(getattr(client, method)(address), 401)["message"])

    user.is_active = False
    user.save()
    assert told() == "The user of this key is switched off."
    models.ApiKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert told() == "The key has expired."
    revoke_key(key=key)
    assert told() == "The key was revoked."


def test_a_wrong_key_is_not_replaced_by_a_cookie() -> None:
    client = Client()
    client.force_login(UserFactory())
    assert ok(client.get("/api/stores")) == {"next": None, "results": []}
    for method, address in ADDRESSES:
        response = getattr(client, method)(address, headers={"authorization": "Bearer wrong"})
        error_of(response, 401)


def test_another_scheme_of_a_proxy_leaves_the_cookie_alone() -> None:
    client = Client(headers={"authorization": "Basic dXNlcjpwYXNz"})
    error_of(client.get("/api/stores"), 401)
    client.force_login(UserFactory())
    ok(client.get("/api/stores"))


@pytest.mark.parametrize("method", ["post", "patch", "delete"])
def test_a_cookie_needs_the_token_against_forgery(method: str) -> None:
    store = StoreFactory(owner=UserFactory(permissions=WRITER))
    client = Client(enforce_csrf_checks=True)
    client.force_login(store.owner)
    ok(client.get("/api/stores"))
    address = RETRIEVE if method == "post" else f"/api/stores/{store.pk}"
    error = error_of(getattr(client, method)(address, content_type="application/json"), 403)
    assert "X-CSRFToken" in error["hint"]
    assert models.Store.objects.filter(pk=store.pk).exists()


def test_a_cookie_with_its_token_may_change(settings: Any) -> None:
    store = StoreFactory(owner=UserFactory(permissions=WRITER))
    client = Client(enforce_csrf_checks=True)
    client.force_login(store.owner)
    token = client.get("/api/docs").cookies["csrftoken"].value
    address = f"/api/stores/{store.pk}"
    sent = {"content_type": "application/json", "headers": {"x-csrftoken": token}}
    assert ok(client.patch(address, {"display_name": "New"}, **sent))["display_name"] == "New"
    error_of(client.post(RETRIEVE, {"query": "x", "stores": ["none"]}, **sent), 404)


def test_a_key_needs_no_token_against_forgery() -> None:
    store = StoreFactory(owner=UserFactory(permissions=WRITER))
    _, secret = create_key(user=store.owner, name="k", rights=["read", "write"])
    client = KeyClient(secret, enforce_csrf_checks=True)
    ok(client.send("patch", f"/api/stores/{store.pk}", {"display_name": "New"}))


def test_a_key_does_only_what_it_has_the_right_to() -> None:
    store = StoreFactory(owner=UserFactory(permissions=WRITER))
    reader = client_for(store.owner, rights=["read"])
    ok(reader.get(f"/api/stores/{store.pk}"))
    for method in ("patch", "delete"):
        error = error_of(reader.send(method, f"/api/stores/{store.pk}", {}), 403)
        assert error["message"] == "This key has no right “write”."
    writer = client_for(store.owner, rights=["write"])
    ok(writer.send("patch", f"/api/stores/{store.pk}", {"display_name": "x"}))
    error_of(writer.get("/api/stores"), 403)
    body = {"query": "x", "stores": [store.slug]}
    error = error_of(writer.send("post", RETRIEVE, body), 403)
    assert error["params"] == {"right": "read"}


def test_every_answer_tells_the_limit_and_the_last_one_how_long_to_wait() -> None:
    _, secret = create_key(user=UserFactory(), name="k", requests_per_minute=3)
    client = KeyClient(secret)
    seen = []
    for address in ("/api/stores", "/api/files/1", "/api/chunks"):
        response = client.get(address)
        assert response["X-RateLimit-Limit"] == "3"
        assert 1 <= int(response["X-RateLimit-Reset"]) <= 60
        seen.append((response.status_code, response["X-RateLimit-Remaining"]))
    assert seen == [(200, "2"), (404, "1"), (200, "0")]
    for method, address in ADDRESSES:
        response = client.send(method, address, {} if method == "post" else None)
        error = error_of(response, 429)
        assert error["code"] == "rate_limited"
        assert 1 <= int(response["Retry-After"]) <= 60
        assert error["params"] == {"limit": "3", "retry_after_s": response["Retry-After"]}
        assert response["X-RateLimit-Remaining"] == "0"


def test_people_who_are_signed_in_have_a_limit_too(settings: Any) -> None:
    settings.RAG = {**settings.RAG, "API_REQUESTS_PER_MINUTE": 2}
    client = Client()
    client.force_login(UserFactory())
    assert [client.get("/api/stores").status_code for _ in range(3)] == [200, 200, 429]
    error_of(client.post(RETRIEVE), 429)
    other = Client()
    other.force_login(UserFactory())
    ok(other.get("/api/stores"))


def test_wrong_keys_of_an_address_are_limited_and_right_ones_are_not(settings: Any) -> None:
    settings.RAG = {**settings.RAG, "API_FAILURES_PER_MINUTE": 2}
    wrong = Client(headers={"authorization": "Bearer wrong"}, REMOTE_ADDR="192.0.2.7")
    assert [wrong.get("/api/stores").status_code for _ in range(4)] == [401, 401, 429, 429]
    response = wrong.post(RETRIEVE)
    error_of(response, 429)
    assert int(response["Retry-After"]) >= 1
    _, secret = create_key(user=UserFactory(), name="k")
    ok(KeyClient(secret, REMOTE_ADDR="192.0.2.7").get("/api/stores"))
    elsewhere = Client(headers={"authorization": "Bearer wrong"}, REMOTE_ADDR="192.0.2.8")
    error_of(elsewhere.get("/api/stores"), 401)


def test_a_key_is_in_no_log_and_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    _, secret = create_key(user=UserFactory(), name="k", requests_per_minute=2)
    answers = []
    with caplog.at_level(logging.DEBUG):
        for client in (KeyClient(secret), KeyClient(secret + "x")):
            for method, address in ADDRESSES:
                answers.append(getattr(client, method)(address).content.decode())
    assert caplog.records
    for text in [*answers, *(record.getMessage() for record in caplog.records)]:
        assert secret[12:] not in text


def test_no_other_site_is_let_in() -> None:
    response = Client(headers={"origin": "https://evil.example"}).options("/api/stores")
    assert not [name for name in response.headers if name.lower().startswith("access-control")]

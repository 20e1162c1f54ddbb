"""Every address while nothing listens on the database's port: 503, when to come back, one sentence."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from django.db import InterfaceError, OperationalError, connections
from django.db.transaction import TransactionManagementError
from django.http import HttpRequest
from django.test import Client
from procrastinate.exceptions import ConnectorException

from agents.runtime.event_errors import error_from_event
from agents.runtime.worker import error_payload
from project.asgi import application
from rag.api.http.errors import map_error
from rag.core.errors import ConfigurationError, ProviderError
from rag.services.outages import DATABASE_AWAY, outage_of
from tests.edges.api.test_access_paths import PASSED_OVER, addresses

SENTENCE = "The database cannot be reached at this moment."
KEY = {"authorization": f"Bearer ck_abcdefgh_{'x' * 43}"}
# Answered without a question to the database.
WITHOUT = {"/", "/healthz", "/readyz", "/theme.css", "/api/docs", "/i18n/setlang/", "/metrics"}
ELSEWHERE = {302, 404}


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any) -> Iterator[None]:
    """Let Django's connections be to a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = connections.settings["default"]
    place = {"HOST": "127.0.0.1", "PORT": str(port), "PASSWORD": "hush"}
    own_options = {name: value for name, value in own["OPTIONS"].items() if name != "pool"}
    connections.close_all()
    for name, value in {**place, "OPTIONS": own_options}.items():
        monkeypatch.setitem(own, name, value)
    with django_db_blocker.unblock():
        yield
        connections.close_all()


def called(client: Client, verb: str, address: str) -> Any:
    """Return the answer of an address to somebody with a key, on pages with a session's cookie."""
    if address.startswith(("/api", "/v1")):
        return client.generic(verb, address, b"{}", "application/json", headers=KEY)
    return client.generic(verb, address)


def test_every_address_says_so(away: None) -> None:
    client, wrong, n_told = Client(raise_request_exception=False), {}, 0
    client.cookies["sessionid"] = "k2hwq9c5zt1m8x3v7b4n6j0s2d5f8g1h"
    found = sorted(one for one in set(addresses()) - WITHOUT if not PASSED_OVER.search(one))
    # Pages of the admin ask who is signed in by the same lines: one of thirty.
    pages = [one for one in found if one.startswith("/admin/")]
    for address in sorted({*found} - {*pages}) + pages[::30]:
        response = called(client, "GET", address)
        if response.status_code == 405:
            response = called(client, "POST", address)
        if response.status_code in ELSEWHERE:
            continue
        text = response.content.decode()
        told = (response.status_code, response.get("Retry-After"), SENTENCE in text)
        if told != (503, "5", True):
            wrong[address] = (*told, text[:80])
        n_told += told[0] == 503
    assert wrong == {}
    assert n_told > 80


def test_readiness_and_openai_s_clients_and_mcp_say_so(away: None) -> None:
    async def ask() -> Any:
        transport = httpx2.ASGITransport(app=application)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post("/mcp", headers=KEY, json={"jsonrpc": "2.0", "id": 1})

    ready = Client().get("/readyz")
    assert ready.status_code == 503 and ready["Retry-After"] == "5"
    checks = ready.json()["checks"]
    assert checks["disk"]["ok"] and not checks["database"]["ok"] and not checks["worker"]["ok"]
    chat = called(Client(), "POST", "/v1/chat/completions")
    assert chat.json()["error"]["code"] == "unavailable" and "x-should-retry" not in chat
    mcp = asyncio.run(ask())
    assert (mcp.status_code, mcp.headers["retry-after"]) == (503, "5") and SENTENCE in mcp.text


def raised(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "is_away"),
    [
        (OperationalError("x"), True),
        (InterfaceError("the connection is closed"), True),
        (raised(ConnectorException(), OperationalError("x")), True),
        (raised(TransactionManagementError("x"), OperationalError("x")), True),
        (ConfigurationError("PostgreSQL did not start. The end of /log: …", retry_after_s=5), True),
        (ConfigurationError("The key is missing."), False),
        (raised(ProviderError("The model failed."), OperationalError("x")), False),
        (raised(OperationalError("x"), OSError(28, "No space left on device")), False),
        (ValueError("x"), False),
    ],
)
def test_what_comes_of_a_database_that_is_away(error: Exception, is_away: bool) -> None:
    assert outage_of(error) is (DATABASE_AWAY if is_away else None)
    payload, code = error_payload(error, "The answer has a fault ({kind}).")
    failure = map_error(HttpRequest(), error_from_event({"code": code, "error": payload}))
    assert failure is not None
    assert (failure.status == 503) is is_away
    if is_away:
        assert failure.error.message == SENTENCE and "log" not in str(payload)

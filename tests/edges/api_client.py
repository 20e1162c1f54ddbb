"""The API as an application meets it: clients with keys, and what answers say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from rag import models
from rag.services.access.api_keys import create_key

BOTH = ("read", "write")
WRITER = (
    "add_store",
    "change_store",
    "delete_store",
    "add_file",
    "change_file",
    "delete_file",
    "change_chunk",
)


class KeyClient(Client):
    """A client that sends a key and JSON."""

    def __init__(self, secret: str = "", language: str = "en", **values: Any) -> None:
        headers = {"accept-language": language}
        if secret:
            headers["authorization"] = f"Bearer {secret}"
        super().__init__(headers=headers, **values)

    def send(self, method: str, address: str, body: Any = None) -> Any:
        """Return the response to a JSON body."""
        if body is None:
            return getattr(self, method)(address)
        return getattr(self, method)(address, body, content_type="application/json")


def client_for(
    user: User,
    rights: Sequence[str] = BOTH,
    stores: Sequence[models.Store] | None = None,
    language: str = "en",
) -> KeyClient:
    """Return a client with a new key of ``user``."""
    _, secret = create_key(user=user, name="test", rights=rights, stores=stores)
    return KeyClient(secret, language)


def error_of(response: Any, status: int) -> dict[str, Any]:
    """Return the error of a response that must have ``status`` and the one shape."""
    assert response.status_code == status, (response.status_code, response.content[:500])
    assert response["Content-Type"].startswith("application/json")
    body = response.json()
    assert set(body) == {"error"}
    error: dict[str, Any] = body["error"]
    assert (
        {"code", "message", "hint", "params"}
        <= set(error)
        <= {
            "code",
            "message",
            "hint",
            "params",
            "fields",
        }
    )
    assert error["message"]
    assert "{" not in error["message"] + error["hint"]
    return error


def ok(response: Any, status: int = 200) -> Any:
    """Return the JSON of a response that must have ``status``."""
    assert response.status_code == status, (response.status_code, response.content[:1000])
    return response.json() if response.content else None

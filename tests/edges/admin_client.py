"""Admin test client: signed-in clients, admin URLs and the visible text of a page."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.factories import DIM
from tests.fakes.model_plugins import use_provider


def use_words_embedder(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Let stores stand on the embedder of hashed words."""
    use_provider(monkeypatch, "embedding", "words", "tests.fakes.words_embedder.make")
    settings.RAG = {**settings.RAG, "EMBEDDING_MODEL": f"words:{DIM}"}


def client_of(user: User | None = None, language: str = "en") -> Client:
    """Return a client that is signed in as ``user`` and asks for ``language``."""
    client = Client(headers={"accept-language": language})
    if user is not None:
        client.force_login(user)
    return client


def at(name: str, *args: Any, **query: Any) -> str:
    """Return an address of the admin, such as ``at("rag_store_changelist", q="x")``."""
    parts = "&".join(f"{key}={value}" for key, value in query.items())
    return reverse(f"admin:{name}", args=args) + (f"?{parts}" if parts else "")


def page(client: Client, name: str, *args: Any, **query: Any) -> str:
    """Return the HTML of a page that must be there."""
    response = client.get(at(name, *args, **query))
    assert response.status_code == 200, (response.status_code, at(name, *args, **query))
    return response.content.decode()


def words(markup: str) -> str:
    """Return what a person reads of a page: its text, titles and labels, without scripts."""
    markup = re.sub(r"(?s)<(script|style)\b.*?</\1>", " ", markup)
    spoken = re.findall(r'\b(?:title|placeholder|aria-label|alt)="([^"]*)"', markup)
    text = re.sub(r"(?s)<[^>]+>", " ", markup)
    return " ".join(html.unescape(" ".join([text, *spoken])).split())


def post_action(client: Client, model: str, action: str, ids: list[int], **more: Any) -> Any:
    """Run a list action on rows and return the response after the redirect."""
    data = {"action": action, "_selected_action": ids, **more}
    return client.post(at(f"rag_{model}_changelist"), data, follow=True)


def streamed(response: Any) -> bytes:
    """Return the bytes of a download that comes piece by piece."""

    async def read() -> bytes:
        return b"".join([piece async for piece in response.streaming_content])

    return bytes(async_to_sync(read)())

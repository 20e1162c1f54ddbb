"""The node's routes as their client meets them: keys, bodies, errors, a Gemini of our own."""

from __future__ import annotations

import json
import re
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib.auth.models import User

from rag import models
from tests.edges.api_client import KeyClient, client_for
from tests.factories import FileFactory, StoreFactory, UserFactory, publish, upload
from tests.fakes.gemini_server import GeminiServer

KEY = "AIza-secret-0123456789"
RIGHTS = ("add_store", "add_file")


def use_gemini(settings: Any, server: GeminiServer, **more: Any) -> None:
    """Let the installation's Gemini be ``server``."""
    server.key = KEY
    settings.RAG = {
        **settings.RAG,
        "GEMINI_API_KEY": KEY,
        "GEMINI_BASE_URL": server.url,
        "TIMEOUT_S": 5.0,
        **more,
    }


def builder(**values: Any) -> User:
    """Return somebody who may make stores and upload."""
    return UserFactory(permissions=RIGHTS, **values)


def builder_client(user: User | None = None, **values: Any) -> KeyClient:
    """Return a client of somebody who may make stores and upload."""
    return client_for(user or builder(), **values)


def refused(response: Any, status: int, sentence: str = "") -> str:
    """Return the sentence of an error in the one shape of these routes."""
    assert response.status_code == status, (response.status_code, response.content[:500])
    assert response["Content-Type"].startswith("application/json")
    body = response.json()
    assert set(body) == {"error"} and isinstance(body["error"], str) and body["error"]
    assert not re.search(r"\{\w+\}", body["error"])
    if sentence:
        assert sentence == body["error"]
    told: str = body["error"]
    return told


def post(client: KeyClient, name: str, **body: Any) -> Any:
    """Return the response to a JSON body."""
    return client.send("post", f"/api/rag/{name}", body)


def send(client: KeyClient, store: str, name: str, content: bytes, **form: Any) -> Any:
    """Return the response to an upload."""
    return client.post(
        "/api/rag/upload", {"file": upload(name, content), "fileSearchStoreName": store, **form}
    )


def new_store(client: KeyClient, name: str = "Handbook", **body: Any) -> str:
    """Return the resource name of a new store."""
    response = post(client, "store", displayName=name, **body)
    assert response.status_code == 200, response.content
    made: str = response.json()["name"]
    return made


def local_store(user: User, *texts: str) -> models.Store:
    """Return a store of ours with a published file."""
    store = StoreFactory(owner=user, resource_name=models.store.new_resource_name())
    publish(FileFactory(store=store, name="手册.pdf"), *texts, gap=20)
    return store


def events(response: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a stream, without comments."""
    assert response["Content-Type"].startswith("text/event-stream")

    async def read() -> bytes:
        return b"".join([part async for part in response.streaming_content])

    raw = async_to_sync(read)().decode()
    found = []
    for block in raw.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            assert lines[0].startswith("event: ") and lines[1].startswith("data: "), block
            found.append((lines[0][7:], json.loads(lines[1][6:])))
    return found

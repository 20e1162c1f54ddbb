"""The API on a real server with a pool of two connections: many at once, and none is refused."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from django.conf import settings
from django.db import connection

from rag import models
from rag.services.access.api_keys import create_key
from tests.factories import FileFactory, StoreFactory, UserFactory, publish
from tests.forked_processes import start_python

N_CLIENTS = 20


# The server finds the tests' folder by CITABLE_VAR; the name of their database it is told.
SERVER = """
import sys, uvicorn
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]
uvicorn.run("project.asgi:application", port=int(sys.argv[2]), log_level="error", lifespan="off")
"""


@pytest.fixture
def address(transactional_db: None) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)
    name = str(connection.settings_dict["NAME"])
    server = start_python(
        "-c",
        SERVER,
        name,
        str(port),
        env={
            **os.environ,
            "DATABASE_POOL_SIZE": "2",
            "LOG_LEVEL": "ERROR",
            "DJANGO_SETTINGS_MODULE": "project.settings",
        },
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                httpx2.get(f"{url}/api/docs", timeout=5)
                break
            except httpx2.TransportError:
                assert server.poll() is None
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait(20)


def at_once(n: int, call: Any) -> list[Any]:
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(call, range(n)))


@pytest.mark.slow
def test_many_at_once_share_two_connections(address: str) -> None:
    user = UserFactory(is_superuser=True)
    store = StoreFactory(owner=user, slug="manuals")
    file = FileFactory(store=store)
    chunk = publish(file, "the pump is serviced yearly")[0]
    _, secret = create_key(user=user, name="k", rights=["read", "write"], requests_per_minute=150)
    headers = {"authorization": f"Bearer {secret}"}
    query = {
        "query": "pump",
        "stores": ["manuals"],
        "retrieval_mode": "keyword",
        "settings": {"mode": "keyword"},
    }
    calls: list[Any] = [
        lambda client, n: client.post("/api/rag/retrieve", json=query),
        lambda client, n: client.get("/api/files"),
        lambda client, n: client.get(f"/api/files/{file.pk}/original"),
        lambda client, n: client.patch(f"/api/chunks/{chunk.pk}", json={"enabled": True}),
        lambda client, n: client.post(
            "/api/files",
            data={"store": "manuals"},
            files={"files": (f"{n}.txt", f"text {n}".encode() * 50_000)},
        ),
    ]

    def one(n: int) -> list[int]:
        with httpx2.Client(base_url=address, headers=headers, timeout=60) as client:
            return [call(client, n).status_code for call in calls]

    answers = at_once(N_CLIENTS, one)
    assert answers == [[200, 200, 200, 200, 201]] * N_CLIENTS
    assert models.File.objects.filter(store=store).count() == N_CLIENTS + 1

    def count(n: int) -> int:
        return int(httpx2.get(f"{address}/api/stores", headers=headers, timeout=60).status_code)

    # 100 requests were answered; of the next 60 exactly 50 are.
    codes = at_once(60, count)
    assert (codes.count(200), codes.count(429)) == (50, 10)

"""A document of 100 MB goes to the disk, not into the memory of the web server."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.conf import settings
from django.test import Client

from rag import models
from rag.services.access.api_keys import create_key
from tests.factories import StoreFactory, UserFactory
from tests.server_processes import mortal_server

MB = 1024 * 1024
SIZE = 100 * MB
PIECE = b"".join(b"%015d\n" % number for number in range(MB // 16))
MOST_MB = 60
TOKEN = "c" * 32
EDGE = "----pieces"


def form(name: str, field: str, n_mb: int, **values: str) -> tuple[Iterator[bytes], dict[str, str]]:
    """Return a form with a document of ``n_mb`` as it is sent, and its headers."""
    head = "".join(
        f'--{EDGE}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
        for key, value in values.items()
    )
    head += f'--{EDGE}\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n\r\n'
    tail = f"\r\n--{EDGE}--\r\n"

    def pieces() -> Iterator[bytes]:
        yield head.encode()
        for number in range(n_mb):
            # Each megabyte another, and each document another.
            yield name.encode().ljust(16)[:15] + b"\n" + b"%015d\n" % number + PIECE[32:]
        yield tail.encode()

    length = len(head.encode()) + n_mb * MB + len(tail)
    kind = f"multipart/form-data; boundary={EDGE}"
    return pieces(), {"Content-Type": kind, "Content-Length": str(length)}


def peak_mb(pid: int) -> float:
    """Return the most memory that a process had since ``forget_peak``."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def cookies_of(user: Any) -> dict[str, str]:
    """Return the cookies of a browser in which ``user`` is signed in."""
    client = Client()
    client.force_login(user)
    return {"sessionid": client.cookies["sessionid"].value, "csrftoken": TOKEN}


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_a_document_of_100_mb_leaves_the_web_server_as_it_is() -> None:
    user = UserFactory(is_superuser=True)
    store = StoreFactory(owner=user)
    _, key = create_key(user=user, name="test", rights=["read", "write"])
    bearer = {"Authorization": f"Bearer {key}"}
    signed_in = {"X-CSRFToken": TOKEN, "Accept": "application/json"}
    name = store.resource_name
    ways: list[tuple[str, str, str, dict[str, str], dict[str, str]]] = [
        ("desk", f"/admin/rag/store/{store.pk}/upload/", "files", signed_in, {}),
        ("rest", "/api/files", "files", bearer, {"store": store.slug}),
        ("node", "/api/rag/upload", "file", bearer, {"fileSearchStoreName": name}),
    ]
    # Cookies are signed with the key of this process.
    server = mortal_server(SECRET_KEY=settings.SECRET_KEY)
    with server as (url, process), httpx2.Client(base_url=url, timeout=60) as browser:
        browser.cookies.update(cookies_of(user))

        def send(way: str, path: str, field: str, headers: Any, values: Any, n_mb: int) -> None:
            content, more = form(f"{way}-{n_mb}.txt", field, n_mb, **values)
            answer = browser.post(path, content=content, headers={**headers, **more})
            assert answer.status_code in (200, 201), (way, answer.status_code, answer.text[:500])

        for way in ways:
            send(*way, 1)
            forget_peak(process.pid)
            before = peak_mb(process.pid)
            send(*way, SIZE // MB)
            grown = peak_mb(process.pid) - before
            print(way[0], before, grown)
            assert grown < MOST_MB, f"{way[0]}: {grown:.0f} MB"
    kept = models.File.objects.filter(size=SIZE).order_by("name")
    assert [file.name for file in kept] == ["desk-100.txt", "node-100.txt", "rest-100.txt"]
    # What lies on the disk is what was sent, whichever way it came.
    content, _ = form("desk-100.txt", "files", 100)
    digest = hashlib.sha256()
    for piece in list(content)[1:-1]:
        digest.update(piece)
    assert kept[0].sha256 == digest.hexdigest()

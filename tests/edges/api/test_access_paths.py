"""Every address of the site, asked by readers of a store: none tells of a file kept from them.

All rows about the restricted file have one number, so that it stands for any part of an address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admindocs.views import simplify_regex
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from agents.models import Agent
from rag import models
from rag.services.access.api_keys import create_key
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish
from tests.integration.agent_world import OPEN
from tests.integration.move_world import two_models

__all__ = ["two_models"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("two_models")]
NUMBER = 900_001
WORD, NAME = "zanzibar", "hushed.txt"
PASSED_OVER = re.compile(r"logout|jsi18n|/autocomplete/|static|schema\.json|openapi\.json|password")
QUESTION = "When does the pump stop?"


@pytest.fixture
def world() -> dict[str, Any]:
    """Return a store with a free file and one for the board alone, about which all rows exist."""
    staff, board = GroupFactory(name="staff"), GroupFactory(name="board")
    store = StoreFactory(name="House", slug="house", readers=[staff])
    publish(FileFactory(store=store, name="free.txt"), "The pump stops at noon.")
    file = FileFactory(pk=NUMBER, store=store, name=NAME, restricted=[board], metadata={"k": WORD})
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval(pg_get_serial_sequence('rag_chunk', 'id'), %s)", [NUMBER - 1])
    (chunk,) = publish(file, f"The {WORD} pump stops never.")
    assert chunk.pk == NUMBER
    models.ChunkRevision.objects.create(
        pk=NUMBER,
        chunk=chunk,
        revision=1,
        text=f"Old {WORD}.",
        char_start=0,
        char_end=5,
        file_revision=1,
    )
    models.Chunk.objects.filter(pk=chunk.pk).update(revision=2)
    models.ChunkConflict.objects.create(
        pk=NUMBER, file=file, chunk=chunk, char_start=0, file_revision=1
    )
    question = models.GoldenQuestion.objects.create(pk=NUMBER, store=store, query=QUESTION)
    question.targets.create(pk=NUMBER, file=file, chunk=chunk)
    asker = UserFactory(username="chair", groups=[board, staff])
    models.QueryLog.objects.create(
        pk=NUMBER,
        query="What of the pump?",
        user=asker,
        store_ids=[store.pk],
        settings_hash="0",
        mode="hybrid",
        top_k=3,
        chunk_ids=[NUMBER],
        answer=f"The {WORD} pump.",
        kind="ask",
        citations=[{"quote": f"{WORD} pump", "chunk_id": NUMBER, "file_name": NAME}],
    )
    return {"store": store, "file": file, "staff": staff, "board": board}


def addresses(patterns: Sequence[Any] | None = None, prefix: str = "/") -> Iterator[str]:
    """Yield each address of the site with ``NUMBER`` in place of its parameters."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = simplify_regex(str(pattern.pattern)).lstrip("/")
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns, prefix + route)
        elif isinstance(pattern, URLPattern):
            yield re.sub(r"<[^>]+>", str(NUMBER), prefix + route)


VERBS = ("GET", "HEAD", "OPTIONS", "POST", "PATCH", "DELETE")
# Nobody has such an id; of the same length, so that bodies and headers can be compared.
NOBODY = NUMBER + 7


def api_addresses() -> list[str]:
    """Return the addresses of programs, generated from the URL table: a new one is among them."""
    found = {one for one in addresses() if one.startswith(("/api/", "/v1/"))}
    return sorted(one for one in found if not PASSED_OVER.search(one))


def told_of(client: Client, verb: str, address: str) -> tuple[int, str]:
    """Return status and body of an answer, whatever id it was asked for."""
    response = client.generic(verb, address, b"{}", "application/json")
    body = response.content if not response.streaming else _streamed(response)
    return response.status_code, body.decode("utf-8", "replace").replace(str(NOBODY), str(NUMBER))


def test_what_is_hidden_is_told_as_what_is_not_there(world: dict[str, Any], settings: Any) -> None:
    settings.RAG = {**settings.RAG, "API_REQUESTS_PER_MINUTE": 1_000_000}
    client, differing = client_of(world["staff"]), {}
    for address in api_addresses():
        # Who saves a node under a number that is free makes it, each time with a new store.
        if str(NUMBER) not in address or address.startswith("/api/rag/nodes/"):
            continue
        other = address.replace(str(NUMBER), str(NOBODY))
        for verb in VERBS:
            hidden, missing = told_of(client, verb, address), told_of(client, verb, other)
            if hidden != missing or hidden[0] >= 500:
                differing[verb, address] = (hidden, missing)
    assert differing == {}


def test_strangers_are_told_nothing_by_any_verb(world: dict[str, Any]) -> None:
    open_to_all = {"/api/docs", "/api/openapi.json"}
    told = {
        (verb, address, status)
        for address in set(api_addresses()) - open_to_all
        for verb in VERBS
        if (status := told_of(Client(), verb, address)[0]) not in (301, 302, 401, 403, 404, 405)
        and not (verb == "OPTIONS" and status == 204)
    }
    assert told == set()


def crawl(client: Client) -> dict[str, int]:
    """Return the addresses whose answers tell the word or the name, with their status."""
    telling = {}
    for address in sorted(set(addresses())):
        if PASSED_OVER.search(address):
            continue
        response = client.get(address)
        if tells(response):
            telling[address] = response.status_code
    return telling


def tells(response: Any) -> bool:
    body = response.content if not response.streaming else _streamed(response)
    said = body.decode("utf-8", "replace") + str(response.headers)
    return WORD in said or NAME in said


def _streamed(response: Any) -> bytes:
    if not response.is_async:
        return b"".join(response.streaming_content)

    async def read() -> bytes:
        return b"".join([piece async for piece in response.streaming_content])

    return bytes(async_to_sync(read)())


def client_of(*groups: Any, is_superuser: bool = False) -> Client:
    """Return a client of somebody with every permission to look at and change things."""
    user = UserFactory(groups=groups, is_superuser=is_superuser)
    user.user_permissions.set(Permission.objects.exclude(codename__contains="user"))
    client = Client()
    client.force_login(user)
    client.person = user  # type: ignore[attr-defined]
    return client


def test_no_address_tells_a_reader_of_a_file_that_is_kept_from_him(world: dict[str, Any]) -> None:
    assert crawl(client_of(world["staff"])) == {}


def test_the_same_addresses_tell_operators_and_the_board(world: dict[str, Any]) -> None:
    told = crawl(client_of(is_superuser=True))
    for address in (
        "/admin/rag/file/",
        f"/admin/rag/file/{NUMBER}/change/",
        "/admin/rag/chunk/",
        f"/admin/rag/chunk/{NUMBER}/change/",
        f"/admin/rag/querylog/{NUMBER}/change/",
        "/api/files",
        f"/api/files/{NUMBER}",
        "/api/chunks",
        f"/api/chunks/{NUMBER}",
    ):
        assert told.get(address) == 200, address
    board = client_of(world["staff"], world["board"])
    for address in ("/api/files", f"/api/files/{NUMBER}", "/admin/rag/file/"):
        assert tells(board.get(address)), address


POSTS: list[tuple[str, dict[str, Any]]] = [
    ("/api/rag/retrieve", {"query": QUESTION, "stores": ["house"], "enhancement": "standard"}),
    ("/api/rag/ask", {"query": QUESTION, "stores": ["house"]}),
    ("/api/rag/search", {"query": QUESTION, "mode": "fileSearch", "fileSearchStoreName": "house"}),
    ("/api/agents/desk/chat", {"message": QUESTION, "stores": ["house"], "stream": False}),
    (
        "/v1/chat/completions",
        {"model": "desk", "messages": [{"role": "user", "content": QUESTION}]},
    ),
]


def ask_all(client: Client, secret: str) -> list[str]:
    """Return the questions whose answers tell the word."""
    headers = {"authorization": f"Bearer {secret}"}
    told = []
    for address, body in POSTS:
        response = client.post(address, body, content_type="application/json", headers=headers)
        assert response.status_code == 200, (address, response.content)
        if tells(response):
            told.append(address)
    return told


@pytest.mark.django_db(transaction=True)
def test_a_restriction_takes_effect_at_once_in_every_answer(world: dict[str, Any]) -> None:
    user = UserFactory(groups=[world["staff"]])
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="rag"))
    _, secret = create_key(user=user, name="k", rights=("read", "write"))
    Agent.objects.create(name="desk", owner=user, config=dict(OPEN))
    client, told = Client(), {address for address, _ in POSTS} - {"/api/rag/search"}
    assert ask_all(client, secret) == []
    user.groups.add(world["board"])
    assert told <= set(ask_all(client, secret))
    user.groups.remove(world["board"])
    assert ask_all(client, secret) == []
    world["file"].restricted_to.clear()
    assert told <= set(ask_all(client, secret))
    world["file"].restricted_to.add(world["board"])
    assert ask_all(client, secret) == []

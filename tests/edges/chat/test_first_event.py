"""What a question costs before its first event: changes of threads and statements, counted."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as site
from django.core.signals import request_started
from django.db import close_old_connections
from django.db.backends.utils import CursorWrapper
from django.test import AsyncClient, Client
from django.utils.module_loading import import_string

from agents import models
from project.asgi import django_application
from rag.services.access.api_keys import create_key
from tests.factories import UserFactory
from tests.integration.agent_world import CITED, AgentWorld, settled, world

__all__ = ["world"]
FIRST = b"event: start"
QUESTION = {"message": "How often is the pump serviced?"}


@dataclass
class Counted:
    """What was done for a request up to its first event."""

    threads: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    is_over: bool = False


def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    found = Counted()
    execute, executor = CursorWrapper.execute, asyncio.BaseEventLoop.run_in_executor

    def told(cursor: Any, sql: Any, params: Any = None) -> Any:
        # The answer itself, which is begun by then, works on threads of these names.
        if not found.is_over and not threading.current_thread().name.startswith(
            ("db", "blocking", "external")
        ):
            found.statements.append(str(sql)[:60])
        return execute(cursor, sql, params)

    def sent(loop: Any, threads: Any, work: Any, *args: Any) -> Any:
        if not found.is_over:
            found.threads.append(str(work))
        return executor(loop, threads, work, *args)

    monkeypatch.setattr(CursorWrapper, "execute", told)
    monkeypatch.setattr(asyncio.BaseEventLoop, "run_in_executor", sent)
    return found


async def asked(
    path: str, body: Any, secret: str, found: Counted, gone: asyncio.Event | None = None
) -> list[bytes]:
    """Ask by ASGI itself, as a server does, and return what was sent; ``gone`` ends the line."""
    incoming = [{"type": "http.request", "body": json.dumps(body).encode()}]
    sent: list[bytes] = []

    async def receive() -> Any:
        if incoming:
            return incoming.pop()
        await (gone or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))
        found.is_over = found.is_over or FIRST in sent[-1]

    headers = {
        "authorization": f"Bearer {secret}",
        "host": "localhost",
        "content-type": "application/json",
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "http_version": "1.1",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    await django_application(scope, receive, send)
    await settled()
    return sent


async def cost(world: AgentWorld, monkeypatch: Any, path: str, body: Any) -> Counted:
    world.use(CITED)
    _, secret = await sync_to_async(create_key)(user=world.user, name="k")
    # The first one loads what every later one has.
    await asked(path, body, secret, Counted())
    # Other tests' client connects it again.
    request_started.disconnect(close_old_connections)
    with monkeypatch.context() as patch:
        found = counted(patch)
        sent = await asked(path, body, secret, found)
    assert found.is_over and b"[1]" in b"".join(sent)
    return found


async def test_a_first_event_takes_few_threads_and_statements(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await cost(world, monkeypatch, "/api/agents/desk/chat", QUESTION)
    # What the answer itself sends to its own threads delays no first event.
    hops = [one for one in found.threads if "_released" not in one]
    # The key, the question.
    assert sum("authenticate_anybody" in one for one in hops) == 1
    assert sum("run_thread_sensitive" in one for one in hops) == 1, (
        "agent and question on one thread, at once"
    )
    assert len(hops) == 2, hops
    # Of Django: agent, budget, its stores, stores; session, question, answer, head. The key with
    # its groups and stores, and the quota, are asked by statements that the driver has planned.
    assert len(found.statements) == 8, found.statements


async def test_a_single_turn_of_openais_protocol_costs_the_same(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {
        "model": "desk",
        "stream": True,
        "messages": [{"role": "user", "content": QUESTION["message"]}],
    }
    monkeypatch.setattr("tests.edges.chat.test_first_event.FIRST", b'"role":"assistant"')
    found = await cost(world, monkeypatch, "/v1/chat/completions", body)
    assert sum("run_thread_sensitive" in one for one in found.threads) == 1
    assert len(found.statements) == 8, found.statements


def test_no_middleware_stands_between_a_client_that_leaves_and_its_view() -> None:
    # One that is sync alone makes all before it sync: they hear of nothing until the view ends.
    sync = [name for name in site.MIDDLEWARE if not import_string(name).async_capable]
    assert sync == []


async def test_who_leaves_a_whole_answer_stops_its_model(world: AgentWorld, settings: Any) -> None:
    slow = {"answers": [{"contains": "pump", "answer": "a b c d", "delay_s": 30}], "default": ""}
    world.use(slow)
    _, secret = await sync_to_async(create_key)(user=world.user, name="k")
    messages = [{"role": "user", "content": QUESTION["message"]}]
    for path, body in (
        ("/api/agents/desk/chat", {**QUESTION, "stream": False}),
        ("/v1/chat/completions", {"model": "desk", "messages": messages}),
    ):
        settings.AGENTS = {**settings.AGENTS, "FINISHES_ALONE": False}
        gone = asyncio.Event()
        request = asyncio.create_task(asked(path, body, secret, Counted(), gone))
        answers = models.Message.objects.filter(role="assistant", status="running")
        async with asyncio.timeout(5):
            while not await models.MessageEvent.objects.filter(message__in=answers).aexists():
                await asyncio.sleep(0.01)
            gone.set()
            assert await request == [], "nobody is there to be answered"
        last = await models.Message.objects.filter(role="assistant").alatest("pk")
        assert last.status == "stopped", path


@pytest.mark.parametrize("is_async", [True, False])
async def test_static_files_pages_and_languages_are_served_in_both_worlds(
    transactional_db: None, is_async: bool
) -> None:
    async def got(path: str, **headers: str) -> Any:
        if is_async:
            return await AsyncClient().get(path, headers=headers)
        return await sync_to_async(Client().get)(path, headers=headers)

    style = await got("/static/unfold/css/styles.css")
    assert (style.status_code, style["Content-Type"]) == (200, 'text/css; charset="utf-8"')
    style.close()
    assert (await got("/static/unfold/css/none.css")).status_code == 404
    page = await got("/admin/login/", **{"accept-language": "zh-hans"})
    assert page["Content-Language"] == "zh-hans" and "csrftoken" in page.cookies
    assert (await got("/admin/auth")).status_code == 302
    assert (await got("/api/schema.json", host="elsewhere.example")).status_code == 400


async def test_a_changed_session_and_its_messages_are_kept_by_an_async_request(
    transactional_db: None, settings: Any
) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    user = await sync_to_async(UserFactory)(is_staff=True, is_superuser=True)
    await sync_to_async(user.set_password)("pump and valve")
    await sync_to_async(user.save)()
    client = AsyncClient()
    told = {"username": user.username, "password": "pump and valve", "next": "/admin/"}
    entered = await client.post("/admin/login/", told)
    assert (entered.status_code, entered["Location"]) == (302, "/admin/")
    assert client.cookies["sessionid"].value
    assert (await client.get("/admin/auth/user/")).status_code == 200
    form = {"action": "delete_selected", "index": "0"}
    # Nothing was chosen: the admin says so on the next page.
    warned = await client.post("/admin/auth/user/", form)
    assert warned.status_code == 302
    assert "messages" in warned.cookies

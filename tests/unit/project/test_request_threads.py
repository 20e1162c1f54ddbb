"""Request threads are kept for the next request, and a request changes threads twice."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from asgiref.sync import SyncToAsync, sync_to_async
from django.core.signals import request_started
from django.db import close_old_connections

from project import asgi, request_threads
from project.request_threads import RequestThreadContext


@pytest.fixture(autouse=True)
def nobody_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_threads, "_idle", deque())


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The runner of async tests has a thread of its own for what a request would hand to its."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 20))

    return run


async def name_of_thread() -> int:
    return await sync_to_async(threading.get_ident)()


@on_loop
async def test_the_next_request_has_the_thread_of_the_last() -> None:
    seen = []
    for _ in range(3):
        async with RequestThreadContext():
            seen.append((await name_of_thread(), await name_of_thread()))
    assert len({one for pair in seen for one in pair}) == 1


@on_loop
async def test_two_requests_at_once_have_two_threads() -> None:
    async def ask() -> int:
        async with RequestThreadContext():
            await asyncio.sleep(0.01)
            return await name_of_thread()

    assert len(set(await asyncio.gather(ask(), ask()))) == 2
    assert len(request_threads._idle) == 2


@on_loop
async def test_a_thread_that_still_works_is_not_given_to_others() -> None:
    may_end = threading.Event()
    async with RequestThreadContext():
        busy = await name_of_thread()
        left = asyncio.create_task(sync_to_async(may_end.wait)())
        await asyncio.sleep(0)
    async with RequestThreadContext():
        other = await name_of_thread()
    may_end.set()
    await left
    assert other != busy


@on_loop
async def test_a_task_that_outlives_its_request_has_another_thread() -> None:
    over = asyncio.Event()

    async def outlive() -> int:
        await over.wait()
        return await name_of_thread()

    async with RequestThreadContext():
        first = await name_of_thread()
        task = asyncio.create_task(outlive())
        await asyncio.sleep(0)
    async with RequestThreadContext():
        assert await name_of_thread() == first
        over.set()
        assert await task != first


def test_a_fork_takes_no_threads_along() -> None:
    async def ask() -> None:
        async with RequestThreadContext():
            await name_of_thread()

    asyncio.run(ask())
    if (child := os.fork()) == 0:
        # A child that waits for a thread of its parent's is killed.
        signal.alarm(10)
        asyncio.run(ask())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@on_loop
async def test_idle_threads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_threads, "MAX_IDLE", 1)

    async def ask() -> None:
        async with RequestThreadContext():
            await asyncio.sleep(0.01)
            await name_of_thread()

    await asyncio.gather(ask(), ask(), ask())
    assert len(request_threads._idle) == 1


@on_loop
async def test_a_request_changes_threads_for_its_view_and_its_end_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changes: list[str] = []
    change = SyncToAsync.__call__

    async def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
        changes.append(self.func.__qualname__)
        return await change(self, *args, **kwargs)

    monkeypatch.setattr(SyncToAsync, "__call__", counting)
    # Django's test client connects it again.
    request_started.disconnect(close_old_connections)
    sent: list[Any] = []
    incoming = iter([{"type": "http.request", "body": b'{"query": "x", "stores": ["y"]}'}])

    async def receive() -> Any:
        if (message := next(incoming, None)) is None:
            await asyncio.Event().wait()
        return message

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        **{"type": "http", "method": "POST", "path": "/api/rag/retrieve", "query_string": b""},
        **{"headers": headers, "client": ("127.0.0.1", 1), "server": ("localhost", 80)},
    }
    await asgi.application(scope, receive, send)
    assert sent[0]["status"] == 401
    assert dict(sent[0]["headers"])[b"X-Frame-Options"] == b"DENY"
    assert dict(sent[0]["headers"])[b"X-Content-Type-Options"] == b"nosniff"
    # And Django logs a refusal on a thread.
    assert changes.count("log_response") == 1 and len(changes) == 3, changes

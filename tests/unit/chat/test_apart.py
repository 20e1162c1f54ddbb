"""Pages, tools and whole batches that take their time delay nobody's search."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agents.chat.agents import page as context_page
from agents.chat.agents.page import MAX_URLS, read_page
from agents.core.page_context import PageContext
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import ProviderTimeoutError
from rag.services import threads
from rag.services.threads import run_blocking, run_db, run_until

MANY = 30


@pytest.fixture
def may_end() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


async def search_at_once() -> None:
    """Do what searches and rows do; it must not wait for anything."""
    async with asyncio.timeout(2):
        assert await run_blocking(lambda: "found") == "found"
        assert await run_db(lambda: "row") == "row"


async def test_pages_that_hang(monkeypatch: pytest.MonkeyPatch, may_end: threading.Event) -> None:
    begun: list[str] = []

    def hangs(url: str, *_: Any) -> Any:
        begun.append(url)
        may_end.wait(10)
        return []

    monkeypatch.setattr(context_page, "_document", hangs)
    pages = [
        PageContext(urls=tuple(f"http://slow.test/{n}/{m}" for m in range(MAX_URLS)))
        for n in range(MANY // MAX_URLS)
    ]
    reading = [
        asyncio.create_task(
            read_page(page=page, query="q", scope=Scope.anonymous(), max_tokens=100, timeout_s=0.5)
        )
        for page in pages
    ]
    async with asyncio.timeout(2):
        while len(begun) < MANY:
            await asyncio.sleep(0.005)
    await search_at_once()
    read = await asyncio.gather(*reading)
    assert all(len(one.failures) == MAX_URLS for one in read)


async def test_tools_that_wait_for_a_thread(
    monkeypatch: pytest.MonkeyPatch, may_end: threading.Event
) -> None:
    places = threading.BoundedSemaphore(1)
    places.acquire()
    monkeypatch.setattr(threads, "_detached_slots", places)
    calls = [
        asyncio.create_task(run_until(may_end.wait, name="t", deadline=Deadline(0.5)))
        for _ in range(MANY)
    ]
    await asyncio.sleep(0.1)
    await search_at_once()
    places.release()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert any(isinstance(one, ProviderTimeoutError) for one in ended)

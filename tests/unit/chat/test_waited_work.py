"""Work that nobody waits for any more learns it, wherever the waiting was broken off."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from agents.chat.mcp import tools as mcp_catalogue
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import CancelledError, ProviderTimeoutError
from rag.core.plugins import PLUGINS
from rag.core.tools import ToolCall
from rag.services import threads
from rag.services.threads import run_until


@pytest.fixture
def no_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Semaphore]:
    """All threads for such work are taken."""
    places = threading.BoundedSemaphore(1)
    places.acquire()
    monkeypatch.setattr(threads, "_detached_slots", places)
    yield places


async def until(is_true: Any) -> None:
    async with asyncio.timeout(3):
        while not is_true():
            await asyncio.sleep(0.005)


async def test_what_comes_in_time_is_returned() -> None:
    assert (await run_until(lambda: 7, name="t", deadline=Deadline(5))).result() == 7
    done = await run_until(lambda: 1 // 0, name="t", deadline=Deadline(5))
    assert isinstance(done.exception(), ZeroDivisionError)


async def test_who_is_late_is_told_so() -> None:
    deadline, seen = Deadline(0.1), list[type[BaseException]]()

    def work() -> None:
        # Past the time at once: else it may notice by itself before anybody waits in vain.
        time.sleep(0.3)
        while True:
            time.sleep(0.01)
            try:
                deadline.check()
            except (CancelledError, ProviderTimeoutError) as error:
                seen.append(type(error))
                raise

    with pytest.raises(ProviderTimeoutError, match=r"The tool slow .* within 0\.1 s"):
        await run_until(work, name="slow", deadline=deadline)
    await until(lambda: bool(seen))
    await until(lambda: deadline.is_cancelled)


async def test_cancelling_reaches_what_has_no_thread_yet(no_thread: Any) -> None:
    deadline, ran = Deadline(5), list[int]()

    def work() -> None:
        deadline.check()
        ran.append(1)

    task = asyncio.create_task(run_until(work, name="t", deadline=deadline))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: deadline.is_cancelled)
    no_thread.release()
    await asyncio.sleep(0.05)
    assert ran == []


class Deed:
    """A tool that notes that it was done."""

    name, label, description = "deed", "Deed", "Does it."
    done: list[int] = []

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        pass

    def run(self, call: ToolCall) -> dict[str, Any]:
        self.done.append(1)
        return {}


async def test_a_program_that_leaves_stops_its_tool(
    monkeypatch: pytest.MonkeyPatch, no_thread: Any
) -> None:
    monkeypatch.setitem(PLUGINS._found["tool"], "deed", Deed)
    work = mcp_catalogue.run_tool(name="deed", arguments={}, scope=Scope.anonymous())
    task = asyncio.create_task(work)
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.05)
    no_thread.release()
    await asyncio.sleep(0.1)
    assert Deed.done == []

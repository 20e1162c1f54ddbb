"""Work that ends with its deadline, on a loop of its own or on the caller's."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rag.core.deadline import Deadline
from rag.core.errors import CancelledError, ProviderTimeoutError
from rag.providers.gemini.deadline_runner import (
    OnProgress,
    await_within,
    reserve_time,
    run_within,
)


async def slow(seconds: float = 30.0) -> str:
    await asyncio.sleep(seconds)
    return "done"


async def broken() -> None:
    await asyncio.sleep(0)
    raise LookupError("of its own")


def test_a_result_or_an_error_comes_through() -> None:
    assert run_within(Deadline(5.0), lambda _: slow(0.01)) == "done"
    with pytest.raises(LookupError, match="of its own"):
        run_within(Deadline(5.0), lambda _: broken())


def test_the_end_of_the_time_ends_the_work() -> None:
    ended = threading.Event()

    async def watched(_: OnProgress) -> None:
        try:
            await slow()
        finally:
            ended.set()

    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError, match=r"within 0.2 s"):
        run_within(Deadline(0.2), watched)
    assert time.monotonic() - started < 0.8
    assert ended.is_set()


@pytest.mark.parametrize("after_s", [0.0, 0.1])
def test_cancelling_wakes_it_from_another_thread(after_s: float) -> None:
    deadline = Deadline(30.0)
    if after_s:
        threading.Timer(after_s, deadline.cancel).start()
    else:
        deadline.cancel()
    started = time.monotonic()
    with pytest.raises(CancelledError):
        run_within(deadline, lambda _: slow())
    assert time.monotonic() - started < 1.0


def test_what_the_work_says_is_told_in_the_caller_s_thread_and_in_order() -> None:
    told: list[tuple[float, int]] = []

    async def work(say: OnProgress) -> int:
        for step in range(50):
            say(step / 50)
            await asyncio.sleep(0)
        return threading.get_ident()

    other = run_within(Deadline(5.0), work, tell=lambda x: told.append((x, threading.get_ident())))
    assert [share for share, _ in told] == [step / 50 for step in range(50)]
    assert {thread for _, thread in told} == {threading.get_ident()} != {other}


def test_a_listener_that_fails_ends_the_work() -> None:
    async def work(say: OnProgress) -> None:
        say(0.5)
        await slow()

    def refuse(_: float) -> None:
        raise KeyError("listener")

    deadline, started = Deadline(30.0), time.monotonic()
    with pytest.raises(KeyError, match="listener"):
        run_within(deadline, work, tell=refuse)
    assert time.monotonic() - started < 1.0
    assert deadline.is_cancelled


async def test_it_may_be_called_where_a_loop_runs_already() -> None:
    assert run_within(Deadline(5.0), lambda _: slow(0.01)) == "done"


async def test_the_caller_s_task_takes_the_work_with_it() -> None:
    ended = asyncio.Event()

    async def watched() -> None:
        try:
            await slow()
        finally:
            ended.set()

    task = asyncio.create_task(await_within(Deadline(30.0), watched()))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_many_calls_at_once_and_many_cancels_harm_nobody() -> None:
    deadlines = [Deadline(30.0) for _ in range(40)]

    def call(at: int) -> str:
        try:
            return run_within(deadlines[at], lambda _: slow(0.05 if at % 2 else 30.0))
        except CancelledError:
            return "cancelled"

    with ThreadPoolExecutor(40) as pool:
        futures = [pool.submit(call, at) for at in range(40)]
        time.sleep(0.5)
        for deadline in deadlines:
            deadline.cancel()
        results = [future.result(5.0) for future in futures]
    assert results == ["cancelled", "done"] * 20


@pytest.mark.parametrize(("total", "spare", "left"), [(100.0, 5.0, 95.0), (10.0, 5.0, 9.0)])
def test_a_part_of_the_time_is_kept_back(total: float, spare: float, left: float) -> None:
    deadline = Deadline(total)
    with reserve_time(deadline, spare) as earlier:
        assert earlier.timeout_s == pytest.approx(left, abs=0.05)
        assert not earlier.is_cancelled
        deadline.cancel()
        assert earlier.is_cancelled
    with pytest.raises(CancelledError), reserve_time(deadline, spare):
        pass

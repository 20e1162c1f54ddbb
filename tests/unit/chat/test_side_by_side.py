"""Of work side by side nothing goes on when one part fails or nobody waits any more."""

from __future__ import annotations

import asyncio

import pytest

from agents.core.extend_pipeline import extend_pipeline
from agents.core.gather import gather_or_cancel
from rag.core.errors import UnknownNameError
from tests.unit.chat.test_supervisor_time import HANG, ended, run_of


async def after(turns: int, value: int, ended: list[int]) -> int:
    try:
        for _ in range(turns):
            await asyncio.sleep(0)
        if value < 0:
            raise ZeroDivisionError(value)
        return value
    finally:
        ended.append(value)


async def test_results_come_in_the_order_of_the_works() -> None:
    done: list[int] = []
    assert await gather_or_cancel(after(3 - n, n, done) for n in range(3)) == [0, 1, 2]
    assert done == [2, 1, 0] and await gather_or_cancel([]) == []


async def test_one_that_fails_ends_the_others() -> None:
    done: list[int] = []
    with pytest.raises(ZeroDivisionError):
        await gather_or_cancel([after(10**9, 1, done), after(1, -1, done)])
    await asyncio.sleep(0)
    assert sorted(done) == [-1, 1]


async def test_cancelling_ends_all() -> None:
    done: list[int] = []
    task = asyncio.create_task(gather_or_cancel(after(10**9, n, done) for n in (1, 2)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(done) == [1, 2]


def test_a_fault_of_one_agent_leaves_no_other_at_work() -> None:
    run = run_of({"pumps": HANG, "plants": 0.0})
    with pytest.raises(AssertionError, match="nobody waits so long"):
        ended(run)
    # The loop ended with nothing left on it: the other one was told to end.
    assert [one["agent"] for one in run.of("agent_call")] == ["pumps", "plants"]


def test_a_type_of_agent_that_is_none_is_not_extended_in_silence() -> None:
    with pytest.raises(UnknownNameError, match="rag, react, supervisor"):
        extend_pipeline("rga")

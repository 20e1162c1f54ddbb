"""Calls of models wait for whoever writes them, and are written once in any case."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rag.core.ports import ChatRequest
from rag.core.request_context import UsageAccount
from rag.core.types import ChatReply, Message
from rag.services.usage import ledger as usage_later
from rag.services.usage.ledger import (
    DeferredUsage,
    ModelCall,
    defer_to,
    deferred_usage,
    flush_usage,
    record_or_defer,
)
from rag.services.usage.metering import ChatMeter


def call(name: str) -> ModelCall:
    return ModelCall(f"test:{name}", UsageAccount())


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    names: list[str] = []
    monkeypatch.setattr(usage_later, "record_call", lambda *, call: names.append(call.model))
    yield names


def test_calls_of_a_context_wait_until_they_are_taken(written: list[str]) -> None:
    later, context = DeferredUsage(), contextvars.Context()
    context.run(defer_to, later)
    context.run(record_or_defer, call("a"))
    record_or_defer(call("elsewhere"))
    assert written == ["test:elsewhere"]
    assert [one.model for one in later.take()] == ["test:a"] and later.take() == []
    context.run(record_or_defer, call("b"))
    later.write()
    assert written == ["test:elsewhere", "test:b"]


def test_what_is_taken_and_not_written_waits_again(written: list[str]) -> None:
    later = DeferredUsage()
    later.add(call("a"))
    with pytest.raises(ZeroDivisionError), later.writing() as calls:
        assert [one.model for one in calls] == ["test:a"] and not later.is_waiting
        raise ZeroDivisionError
    assert later.is_waiting
    later.close()
    assert written == ["test:a"]


def test_a_budget_is_not_asked_while_a_call_is_neither_held_nor_spent(written: list[str]) -> None:
    later = DeferredUsage()
    later.add(call("a"))
    with later.writing() as calls:
        asking = threading.Thread(target=later.write)
        asking.start()
        asking.join(0.1)
        assert asking.is_alive() and len(calls) == 1
    asking.join(5)
    assert not asking.is_alive() and written == []


def test_after_the_last_time_each_is_written_at_once(written: list[str]) -> None:
    later, context = DeferredUsage(), contextvars.Context()
    context.run(defer_to, later)
    assert context.run(deferred_usage) is later and deferred_usage() is None
    assert later.take(is_last=True) == [] and not later.is_open
    context.run(record_or_defer, call("late"))
    assert written == ["test:late"] and context.run(deferred_usage) is None


def test_a_block_inside_writes_its_own_calls_at_its_end(written: list[str]) -> None:
    def inside() -> None:
        with flush_usage():
            record_or_defer(call("inner"))
            assert written == []
        assert written == ["test:inner"]

    later, context = DeferredUsage(), contextvars.Context()
    context.run(defer_to, later)
    context.run(inside)
    assert later.take() == []


@pytest.mark.parametrize(
    ("model", "reply", "at_once"),
    [
        ("test:m", ChatReply("a", "test:m", "stop", 3, 1), True),
        ("test:m", ChatReply("a", "test:m", "stop"), False),
        ("extractive:sentences", ChatReply("a", "extractive:sentences"), True),
        ("test:m", None, False),
    ],
)
def test_a_call_ends_at_once_where_nothing_must_be_asked(
    model: str, reply: ChatReply | None, at_once: bool
) -> None:
    request = ChatRequest([Message("user", "How often?")])
    meter = ChatMeter(model, UsageAccount(), request)
    meter.begin(is_free=True)
    if reply:
        meter.see(reply)
    assert not meter.ends_at_once, "nobody takes its row here"

    def waited() -> tuple[bool, list[Any]]:
        later = DeferredUsage()
        defer_to(later)
        is_quick = meter.ends_at_once
        if is_quick:
            meter.end()
        return is_quick, later.take()

    is_quick, calls = contextvars.Context().run(waited)
    assert is_quick is at_once and len(calls) == int(at_once)


def test_a_key_is_free_for_a_while_and_nobody_always() -> None:
    assert UsageAccount().is_free
    assert not UsageAccount(key_id=1).is_free
    now = time.monotonic()
    assert UsageAccount(key_id=1, free_until=now + 60).is_free
    assert not UsageAccount(key_id=1, free_until=now - 1).is_free

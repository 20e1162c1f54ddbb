"""Calls of models wait for whoever writes them, and are written once in any case."""

from __future__ import annotations

import contextvars
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rag.core.account import Account
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply, Message
from rag.services.usage import ledger as usage_later
from rag.services.usage.ledger import Call, Later, keep_call, waiting_here, written_by, written_here
from rag.services.usage.metered_models import ChatMeter


def call(name: str) -> Call:
    return Call(f"test:{name}", Account())


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    names: list[str] = []
    monkeypatch.setattr(usage_later, "record_call", lambda *, call: names.append(call.model))
    yield names


def test_calls_of_a_context_wait_until_they_are_taken(written: list[str]) -> None:
    later, context = Later(), contextvars.Context()
    context.run(written_by, later)
    context.run(keep_call, call("a"))
    keep_call(call("elsewhere"))
    assert written == ["test:elsewhere"]
    assert [one.model for one in later.take()] == ["test:a"] and later.take() == []
    context.run(keep_call, call("b"))
    later.write()
    assert written == ["test:elsewhere", "test:b"]


def test_what_is_taken_and_not_written_waits_again(written: list[str]) -> None:
    later = Later()
    later.add(call("a"))
    for one in later.take():
        later.add(one)
    later.close()
    assert written == ["test:a"]


def test_after_the_last_time_each_is_written_at_once(written: list[str]) -> None:
    later, context = Later(), contextvars.Context()
    context.run(written_by, later)
    assert context.run(waiting_here) is later and waiting_here() is None
    assert later.take(is_last=True) == [] and not later.is_open
    context.run(keep_call, call("late"))
    assert written == ["test:late"] and context.run(waiting_here) is None


def test_a_block_inside_writes_its_own_calls_at_its_end(written: list[str]) -> None:
    def inside() -> None:
        with written_here():
            keep_call(call("inner"))
            assert written == []
        assert written == ["test:inner"]

    later, context = Later(), contextvars.Context()
    context.run(written_by, later)
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
    meter = ChatMeter(model, Account(), request)
    meter.begin(is_free=True)
    if reply:
        meter.see(reply)
    assert not meter.ends_at_once, "nobody takes its row here"

    def waited() -> tuple[bool, list[Any]]:
        later = Later()
        written_by(later)
        is_quick = meter.ends_at_once
        if is_quick:
            meter.end()
        return is_quick, later.take()

    is_quick, calls = contextvars.Context().run(waited)
    assert is_quick is at_once and len(calls) == int(at_once)


def test_a_key_is_free_for_a_while_and_nobody_always() -> None:
    assert Account().is_free
    assert not Account(key_id=1).is_free
    now = time.monotonic()
    assert Account(key_id=1, free_until=now + 60).is_free
    assert not Account(key_id=1, free_until=now - 1).is_free

"""What an answer costs the database: few connections, few statements, and nothing twice."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from agents import models
from agents.chat.answers import create as start_chat
from agents.chat.answers import event_log as chat_log
from agents.chat.answers import post_process as summarize
from agents.chat.answers.create import MessageRequest
from agents.chat.answers.event_log import AnswerEventLog
from agents.core.agent_config import AgentConfig
from rag import models as rag_models
from rag.core.request_context import UsageAccount
from rag.services.usage.ledger import ModelCall
from rag.services.wiring import registry as wiring
from rag.stages.query.file_question import parse_store_question
from tests.integration.agent_world import CITED, AgentWorld, world

__all__ = ["world"]
SCRIPT = {"answers": [], "default": CITED}
QUESTION = "How often is the pump serviced?"


@pytest.fixture
def counted(world: AgentWorld, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Count what all threads take of the database; the embedder asks no service."""
    monkeypatch.setattr(wiring, "is_local_model", lambda model_id: True)
    found = {"connections": 0, "statements": 0}

    def counting(name: str, real: Any) -> Any:
        def count(*args: Any, **kwargs: Any) -> Any:
            found[name] += 1
            return real(*args, **kwargs)

        return count

    connect, execute = BaseDatabaseWrapper.connect, CursorWrapper._execute
    monkeypatch.setattr(BaseDatabaseWrapper, "connect", counting("connections", connect))
    monkeypatch.setattr(CursorWrapper, "_execute", counting("statements", execute))
    return found


def test_a_first_answer_takes_four_connections(world: AgentWorld, counted: dict[str, int]) -> None:
    world.use(SCRIPT)
    world.ask("Warm up: how often is the filter replaced?")
    counted.update(connections=0, statements=0)
    told = world.ask(QUESTION)
    assert told.last.kind == "done"
    # It is written down, it searches, it ends, with the ledger and its passages held; when nobody
    # waits any more, the search is told what was cited of its hits.
    assert counted["connections"] <= 4
    assert counted["statements"] <= 22


def test_a_later_answer_reads_what_was_said_and_no_more(
    world: AgentWorld, counted: dict[str, int]
) -> None:
    world.use(SCRIPT)
    told = world.ask(QUESTION)
    counted.update(connections=0, statements=0)
    world.ask("And how long is the warranty?", session=told.events[0].data["session"])
    assert counted["connections"] <= 5


def test_the_ledger_is_written_with_the_end_of_the_answer(world: AgentWorld) -> None:
    from rag.services.usage import metering as usage_models

    chat = world.use(SCRIPT)
    world.use(usage_models.MeteredChat(chat))
    told = world.ask(QUESTION)
    (row,) = rag_models.UsageRecord.objects.filter(run=told.events[0].data["message"])
    assert (row.kind, row.outcome, row.agent) == ("chat", "ok", "desk")
    assert row.output_tokens == told.row.usage["output_tokens"] > 0
    assert told.of("usage")[0]["duration_ms"] > 0
    trace = models.TraceStep.objects.get(message=told.row, kind="usage")
    assert trace.duration_ms == told.of("usage")[0]["duration_ms"]


def _row(world: AgentWorld) -> models.Message:
    session = models.Session.objects.create(agent=world.agent, user=world.user)
    return models.Message.objects.create(session=session, role="assistant", status="running")


async def test_a_call_is_in_the_ledger_although_its_answer_went_to_another(
    world: AgentWorld,
) -> None:
    log = AnswerEventLog((await sync_to_async(_row)(world)).pk)
    log.calls.add(ModelCall("test:m", UsageAccount(run="lost"), 5, 2))
    assert not await log.close("done", {}, guard=lambda: False)
    assert await rag_models.UsageRecord.objects.filter(run="lost").acount() == 1
    assert not log.calls.is_open


async def test_a_call_is_in_the_ledger_once_although_the_database_failed(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, n_failed = chat_log.persist_events, []

    def fails_once(*args: Any, **kwargs: Any) -> bool:
        if not n_failed:
            n_failed.append(1)
            raise DatabaseError("gone")
        return real(*args, **kwargs)

    monkeypatch.setattr(chat_log, "persist_events", fails_once)
    monkeypatch.setattr(chat_log, "WRITE_S", 0.01)
    log = AnswerEventLog((await sync_to_async(_row)(world)).pk)
    log.calls.add(ModelCall("test:m", UsageAccount(run="once"), 5, 2))
    while not await rag_models.UsageRecord.objects.filter(run="once").aexists():
        await asyncio.sleep(0.01)
    assert await log.close("done", {})
    assert await rag_models.UsageRecord.objects.filter(run="once").acount() == 1 and n_failed


def test_a_key_without_a_budget_is_not_asked_again_for_a_second(world: AgentWorld) -> None:
    import time

    order = MessageRequest(agent=world.agent, scope=world.scope, message=QUESTION)
    before = time.monotonic()
    started = start_chat.create_answer(order=order)
    assert before < started.free_until <= time.monotonic() + start_chat.FREE_S


async def test_a_short_conversation_is_not_read_to_be_summarized(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(**_: Any) -> Any:
        raise AssertionError("it was read")

    monkeypatch.setattr(summarize, "branch_turns", refuse)
    run: Any = SimpleNamespace(config=AgentConfig(history_turns=2), n_before=2)
    await summarize.update_summary(message=models.Message(pk=1), run=run)
    for n_before in (3, None):
        run.n_before = n_before
        with pytest.raises(AssertionError, match="it was read"):
            await summarize.update_summary(message=models.Message(pk=1), run=run)


@pytest.mark.parametrize(
    ("question", "asks"),
    [("How many files are there?", True), (QUESTION, False), ("有多少个文件？", True)],
)
def test_only_questions_on_the_files_are_asked_of_the_database(question: str, asks: bool) -> None:
    assert (parse_store_question(question) is not None) is asks

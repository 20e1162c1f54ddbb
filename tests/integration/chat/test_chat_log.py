"""Events of answers in the database: complete, in order, and honest about processes that died."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import DatabaseError, connection

from agents import models
from agents.chat.answers import event_log as chat_log
from agents.chat.answers.event_log import GAP, AnswerEventLog, fail_abandoned
from agents.chat.answers.worker import AnswerWorker
from agents.runtime.retention import purge_events
from tests.integration.agent_world import CITED, AgentWorld, world

__all__ = ["world"]


def answer_row(world: AgentWorld, **values: Any) -> models.Message:
    session = models.Session.objects.create(agent=world.agent, user=world.user)
    values = {"role": "assistant", "status": "running", **values}
    return models.Message.objects.create(session=session, **values)


async def test_events_are_told_at_once_and_stored_soon(world: AgentWorld) -> None:
    row = await _make(world)
    log = AnswerEventLog(row.pk)
    heard: list[int] = []

    async def listen() -> None:
        while events := await log.wait_after(len(heard)):
            heard.extend(event.seq for event in events)

    listener = asyncio.create_task(listen())
    for number in range(50):
        await log.append("delta", {"text": f"{number} "})
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert heard == list(range(1, 51)), "nobody waits for the database"
    await asyncio.sleep(0.4)
    assert await models.MessageEvent.objects.filter(message=row).acount() == 50
    assert await log.close("done", {"text": log.transcript.text})
    await asyncio.wait_for(listener, 5)
    assert heard[-1] == 51
    kinds = [event.kind async for event in AnswerWorker.replay(row.pk, after=50)]
    assert kinds == ["done"]


@pytest.mark.parametrize("is_committed", [False, True])
async def test_a_database_that_fails_for_a_moment_loses_nothing(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    row = await _make(world)
    real, n_failed = chat_log.persist_events, []

    def fails_twice(*args: Any, **kwargs: Any) -> bool:
        if len(n_failed) < 2:
            n_failed.append(1)
            if is_committed:
                real(*args, **kwargs)
            raise DatabaseError("gone")
        return real(*args, **kwargs)

    monkeypatch.setattr(chat_log, "persist_events", fails_twice)
    log = AnswerEventLog(row.pk)
    await log.append("delta", {"text": "a"})
    await asyncio.sleep(0.6)
    await log.append("delta", {"text": "b"})
    await log.close("done", {})
    seqs = [
        event.seq async for event in models.MessageEvent.objects.filter(message=row).order_by("seq")
    ]
    assert seqs == [1, 2, 3] and len(n_failed) == 2


async def test_odd_texts_can_be_stored(world: AgentWorld) -> None:
    row = await _make(world)
    log = AnswerEventLog(row.pk)
    await log.append("delta", {"text": "a\0b\ud800c"})
    await log.close("done", {"score": float("nan")})
    assert log.transcript.text == "a\ufffdb\ufffdc"


async def test_an_answer_that_is_anothers_is_not_ended_here(world: AgentWorld) -> None:
    row = await _make(world)
    log = AnswerEventLog(row.pk)
    await log.append("delta", {"text": "a"})
    assert not await log.close("done", {}, guard=lambda: False)
    assert not await models.MessageEvent.objects.filter(message=row, kind="done").aexists()


async def _make(world: AgentWorld) -> models.Message:
    from asgiref.sync import sync_to_async

    return await sync_to_async(answer_row)(world)


def test_a_process_that_died_ends_its_answer_with_an_error(world: AgentWorld) -> None:
    row = answer_row(world, seen_at="2020-01-01T00:00Z")
    for seq, text in enumerate(("half ", "an answer"), start=1):
        models.MessageEvent.objects.create(message=row, seq=seq, kind="delta", data={"text": text})
    living = answer_row(world, seen_at="2999-01-01T00:00Z")

    async def follow(after: int) -> list[Any]:
        return [event async for event in AnswerWorker.replay(row.pk, after=after)]

    from asgiref.sync import async_to_sync

    # Somebody saw more than was stored when the process died: they are told of the end, too.
    events = async_to_sync(follow)(300)
    assert [(event.kind, event.data["code"]) for event in events] == [("error", "interrupted")]
    assert events[0].seq == 2 + GAP
    row.refresh_from_db()
    assert (row.status, row.content) == ("error", "half an answer")
    assert fail_abandoned() == 0
    living.refresh_from_db()
    assert living.status == "running"


def test_old_events_go_and_answers_stay(world: AgentWorld) -> None:
    world.use(CITED)
    told = world.ask("How often is the pump serviced?")
    assert purge_events(older_than_h=1) == 0
    assert purge_events(older_than_h=0) == len(told.events)
    answer_id = told.row.pk

    async def follow() -> list[Any]:
        return [event async for event in AnswerWorker.replay(answer_id, after=3)]

    from asgiref.sync import async_to_sync

    text = told.text
    (last,) = async_to_sync(follow)()
    assert (last.kind, last.data["text"]) == ("done", text)


@pytest.mark.django_db
def test_the_migration_makes_the_agent_that_is_always_there() -> None:
    migration = import_module("agents.migrations.0002_agents")
    models.Agent.objects.filter(name="rag").delete()

    class Editor:
        pass

    editor: Any = Editor()
    editor.connection = connection
    for _ in range(2):
        migration.make_builtin(apps, editor)
    agent = models.Agent.objects.get(name="rag")
    assert agent.is_builtin and agent.is_enabled and agent.is_public and agent.agent_type == "rag"
    assert agent.settings.enable_rerank and agent.settings.enable_query_rewrite
    assert (agent.temperature, agent.max_iterations, agent.agent_role) == (0.7, 1, "specialist")


@pytest.mark.parametrize("engine", ["langgraph", "plain"])
def test_both_engines_tell_the_same(world: AgentWorld, settings: Any, engine: str) -> None:
    settings.AGENTS = {**settings.AGENTS, "ENGINE": engine}
    world.use(CITED)
    told = world.ask("How often is the pump serviced?")
    steps = [event["step"] for event in told.of("step")]
    assert steps == ["route", "search", "rerank", "generate"], "nothing was said before"
    assert told.text == "Every 30 days.[1]"
    told = world.ask("And how often is it stopped?", session=told.events[0].data["session"])
    steps = [event["step"] for event in told.of("step")]
    assert steps == ["load_history", "route", "search", "rerank", "generate"]


def test_a_long_conversation_is_summarized_within_its_branch(world: AgentWorld) -> None:
    world.set(history_turns=1, summary_tokens=60)
    summaries = iter(f"Summary {number}." for number in range(1, 9))

    def answer(request: Any) -> str:
        return next(summaries) if "<turns>" in request.messages[-1].content else CITED

    chat = world.use(answer)
    told = world.ask("How often is the pump serviced?")
    session = told.events[0].data["session"]
    for number in range(3):
        told = world.ask(f"How often is the pump number {number} serviced?", session=session)
    last = chat.requests[-2].messages[-1].content
    assert "<conversation_summary>\nSummary 2.\n</conversation_summary>" in last
    assert len(chat.requests[-2].messages) == 4, "one turn is shown, the rest is in the summary"
    first = models.Message.objects.filter(session__key=session).order_by("pk").first()
    assert first is not None
    n_before = len(chat.requests)
    world.ask("A new branch: when are seeds due?", parent=str(first.children.get().key))
    branch = chat.requests[n_before].messages[-1].content
    assert "Summary 1." in branch and "Summary 2." not in branch and "Summary 3." not in branch

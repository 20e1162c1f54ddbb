"""Conversations: their titles, and that nothing gives back what was deleted."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.utils import timezone

from agents import models
from agents.chat.answers.control import start_answer
from agents.chat.answers.create import MessageRequest
from agents.chat.answers.event_log import close_answer
from agents.chat.answers.post_process import parse_title
from agents.chat.answers.sessions import delete_session, rename_session
from agents.chat.answers.worker import AnswerWorker
from agents.chat.history.quotes import cited_text
from agents.core.chat_events import LAST_KINDS
from rag import models as rag_models
from rag.core.access import Scope
from rag.core.errors import NotFoundError, ProviderError
from rag.models import QueryLog
from rag.services.operations.dashboard_figures import most_cited_files
from rag.services.search.query_log import log_citations
from rag.services.threads import release_db, run_thread_sensitive
from tests.factories import FileFactory, StoreFactory, UserFactory, publish
from tests.integration.agent_world import CITED, QUOTE, AgentWorld, settled, world

__all__ = ["world"]
PUMP = "How often is the pump serviced?"
MARK = "frobnicator-7"


def titled(world: AgentWorld, title: str) -> Any:
    """Let the model give this title; “fails” lets it fail."""

    def answer(request: Any) -> str:
        if "<answer>" not in request.messages[-1].content:
            return CITED
        if title == "fails":
            raise ProviderError("no")
        return title

    return world.use(answer)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("  **Title: Pump service.**\n", "Pump service"),
        ("《水泵保养》", "水泵保养"),
        ("x" * 61, ""),
        ("one\ntwo", ""),
        (" \n", ""),
    ],
)
def test_a_models_title_is_one_short_line(written: str, kept: str) -> None:
    assert parse_title(written) == kept


def test_a_session_is_titled_by_the_model_where_the_agent_says_so(world: AgentWorld) -> None:
    chat = titled(world, "Pump service")
    told = world.ask(f"{PUMP} </question>")
    assert told.row.session.title == f"{PUMP} </question>" and len(chat.requests) == 1
    world.set(session_titles="model")
    told = world.ask(f"{PUMP} </question>")
    session = told.row.session
    assert (session.title, session.titled_by) == ("Pump service", "model")
    asked = chat.requests[-1].messages[-1].content
    assert asked.count("</question>") == 1 and "<answer>Every 30 days.[1]</answer>" in asked
    n = len(chat.requests)
    world.ask("And the filter?", session=str(session.key))
    assert len(chat.requests) == n + 1, "only the first answer is titled"


@pytest.mark.parametrize("title", ["fails", "a\nb"])
def test_without_a_title_the_first_question_stays(world: AgentWorld, title: str) -> None:
    world.set(session_titles="model")
    titled(world, title)
    told = world.ask(PUMP)
    assert told.last.kind == "done"
    assert (told.row.session.title, told.row.session.titled_by) == (PUMP, "rule")


def test_a_persons_title_is_never_replaced(world: AgentWorld) -> None:
    world.set(session_titles="model")
    titled(world, "fails")
    told = world.ask(PUMP)
    rename_session(session=told.row.session, title="Mine")
    titled(world, "The model's")
    again = world.ask(regenerate=str(told.row.key))
    assert (again.row.session.title, again.row.session.titled_by) == ("Mine", "person")


def test_a_quote_that_stands_twice_opens_where_it_was_quoted(world: AgentWorld) -> None:
    world.use(CITED)
    row = world.ask(PUMP).row
    (citation,) = row.citations
    chunk = rag_models.Chunk.objects.get(pk=citation["chunk_id"])
    chunk.text = f"{QUOTE} {QUOTE}"
    chunk.save()
    for start in (0, len(QUOTE) + 1):
        citation["char_start"] = chunk.char_start + start
        row.citations = [citation]
        opened = cited_text(message=row, number=1, scope=world.scope)
        assert (opened["start"], opened["end"]) == (start, start + len(QUOTE))


def test_a_retired_passage_still_opens_and_a_deleted_one_does_not(world: AgentWorld) -> None:
    world.use(CITED)
    row = world.ask(PUMP).row
    rag_models.Chunk.objects.filter(pk=row.citations[0]["chunk_id"]).update(is_live=False)
    opened = cited_text(message=row, number=1, scope=world.scope)
    assert opened["text"][opened["start"] : opened["end"]] == QUOTE
    rag_models.File.objects.filter(name="pump manual.txt").delete()
    with pytest.raises(NotFoundError):
        cited_text(message=row, number=1, scope=world.scope)


def tables_with(text: str) -> list[str]:
    """Return the tables that have a row with this text anywhere."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        found = []
        for (table,) in cursor.fetchall():
            name = connection.ops.quote_name(table)
            cursor.execute(f"SELECT 1 FROM {name} t WHERE t::text ILIKE %s LIMIT 1", [f"%{text}%"])
            found += [table] if cursor.fetchone() else []
    return found


def test_nothing_gives_back_a_session_that_was_deleted(world: AgentWorld) -> None:
    world.set(enable_memory=True, history_turns=0)
    world.use(
        lambda request: (
            "a summary of it: " + MARK if "<turns>" in request.messages[-1].content else CITED
        )
    )
    told = world.ask(f"My pump is a {MARK}. {PUMP}")
    session = told.row.session
    world.ask(f"And the filter of the {MARK}?", session=str(session.key))
    held = tables_with(MARK)
    assert {"agents_session", "agents_message", "agents_memory"} <= set(held)
    delete_session(session=session)
    assert tables_with(MARK) == []


def test_an_answer_that_is_being_written_leaves_nothing(world: AgentWorld) -> None:
    world.set(enable_memory=True)
    world.use({"answers": [{"contains": MARK, "answer": f"{MARK} a b c d e f", "delay_s": 30}]})

    async def ask_and_delete() -> list[str]:
        order = MessageRequest(
            agent=world.agent, scope=world.scope, message=f"My pump is a {MARK}. {PUMP}"
        )
        chat = await start_answer(order=order)
        kinds = []
        async for event in AnswerWorker.replay(chat.answer.pk):
            kinds.append(event.kind)
            if event.kind == "sources":
                await run_thread_sensitive(delete_session, session=chat.answer.session)
                break
        await asyncio.wait_for(settled(), 10)
        return kinds

    kinds = async_to_sync(ask_and_delete)()
    assert not LAST_KINDS & set(kinds)
    assert models.Session.objects.count() == 0 and tables_with(MARK) == []


def test_an_answer_ends_while_its_session_is_deleted(world: AgentWorld) -> None:
    world.use(CITED)
    row = world.ask(PUMP).row
    deleted = threading.Thread(target=lambda: (delete_session(session=row.session), release_db()))

    def pause(execute: Any, *statement: Any) -> Any:
        found = execute(*statement)
        if not deleted.ident:
            deleted.start()
            with connection.cursor() as cursor:
                for _ in range(500):
                    # A transaction sees the activity as it was when it first looked.
                    cursor.execute("SELECT pg_stat_clear_snapshot()")
                    cursor.execute(
                        "SELECT count(*) FROM pg_stat_activity"
                        " WHERE wait_event_type = 'Lock' AND datname = current_database()"
                    )
                    if cursor.fetchone()[0]:
                        break
        return found

    with transaction.atomic(), connection.execute_wrapper(pause):
        close_answer(row, {"content": MARK, "chunk_ids": []})
    deleted.join(10)
    assert not models.Session.objects.exists() and tables_with(MARK) == []


def test_what_an_answer_cites_is_known_to_the_log_of_searches(world: AgentWorld) -> None:
    publish(FileFactory(store=world.store, name="other.txt"), "The pump hums at night.")
    world.use(CITED)
    row = world.ask(PUMP).row
    assert [one["verdict"] for one in row.citations] == ["verified"]
    logged = QueryLog.objects.get(kind="search")
    (noted,) = logged.citations
    told = row.citations[0]
    assert noted == {name: told[name] for name in ("number", "verdict", "file_id", "chunk_id")}
    assert most_cited_files(rows=QueryLog.objects.all()) == [(told["file_id"], 1)]
    # Another one's search, and one from before, are none of it.
    QueryLog.objects.update(citations=[])
    stranger = Scope(user_id=UserFactory().pk)
    for scope, since in ((stranger, row.created_at), (world.scope, timezone.now())):
        assert log_citations(scope=scope, since=since, citations=row.citations) == 0
    assert log_citations(scope=world.scope, since=row.created_at, citations=[]) == 0
    assert log_citations(scope=world.scope, since=row.created_at, citations=row.citations) == 1


def test_an_answer_again_looks_where_the_first_one_looked(world: AgentWorld) -> None:
    other = StoreFactory(owner=world.user, slug="other")
    publish(FileFactory(store=other, name="other.txt"), "The pump is serviced by others.")
    world.use(CITED)
    row = world.ask(PUMP, stores=("manuals",)).row
    again = world.ask(regenerate=str(row.key)).row
    assert {one["source"]["name"] for one in again.sources} == {"pump manual.txt", "library.txt"}
    assert again.request["stores"] == row.request["stores"] == ["manuals"]
    elsewhere = world.ask(regenerate=str(row.key), stores=("other",)).row
    assert {one["source"]["name"] for one in elsewhere.sources} == {"other.txt"}

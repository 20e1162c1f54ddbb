"""Words of deleted passages are shown to nobody and go from kept answers."""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync
from django.db import connection

from agents import models
from agents.chat.history.evidence import redact_deleted, redact_unreadable
from agents.chat.history.history import history_before
from agents.chat.memory.agent_memory import RAGAgentMemory
from agents.runtime.retention import purge_orphaned_answers
from rag import models as rag_models
from rag.core.access import Scope
from rag.services.chunks.add import delete_chunks
from rag.services.files.delete import delete_files
from tests.edges.api_client import client_for, error_of, ok
from tests.factories import FileFactory, UserFactory, publish
from tests.integration.agent_world import QUOTE, TEXTS, AgentWorld, world

__all__ = ["world"]
PARTS = TEXTS[:3]
COMPOST = "Compost of the garden is turned every two weeks."


def answered(world: AgentWorld) -> Any:
    """Ask; the answer cites two documents."""

    def answer(request: Any) -> str:
        documents = request.messages[-1].content
        ids = {
            words: documents[: documents.index(words)].rpartition('id="')[2][:6]
            for words in (QUOTE, COMPOST)
        }
        return (
            f'Hello. <cite doc_id="{ids[QUOTE]}" quote="{QUOTE}">Every 30 days, says it.</cite> '
            f'And <cite doc_id="{ids[COMPOST]}" quote="{COMPOST}">compost each fortnight.</cite>'
        )

    publish(FileFactory(store=world.store, name="garden.txt"), COMPOST)
    world.use(answer)
    world.set(default_top_k=20)
    return world.ask(
        "How often is the pump serviced, and how often is compost of the garden turned?"
    )


def delete(name: str) -> None:
    files = rag_models.File.objects.filter(name=name).values_list("pk", flat=True)
    assert delete_files(scope=Scope.operator(), file_ids=list(files)) == 1


def said_anywhere(words: str) -> list[str]:
    """Return the tables of agents that hold the words in any column."""
    tables = [table for table in connection.introspection.table_names() if "agents_" in table]
    found = []
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"SELECT count(*) FROM {table} t WHERE t::text LIKE %s", [f"%{words}%"])
            found += [table] if cursor.fetchone()[0] else []
    return found


def test_a_deleted_file_goes_from_answer_and_events(world: AgentWorld) -> None:
    told = answered(world)
    assert [one["verdict"] for one in told.row.citations] == ["verified"] * 2
    assert redact_deleted() == 0 and "agents_messageevent" in said_anywhere(QUOTE)
    delete("pump manual.txt")
    shown = ok(client_for(world.user).get(f"/api/messages/{told.row.key}"))
    assert shown["content"] == "Hello. […][1] And compost each fortnight.[2]"
    assert QUOTE not in str(shown) and "30 days" not in str(shown)
    assert said_anywhere("30 days") == [] and said_anywhere(QUOTE) == [], "at commit"
    row = models.Message.objects.get(pk=told.row.pk)
    assert row.content == shown["content"]
    first, second = row.citations
    assert first["is_gone"] and (first["claim"], first["quote"], first["found"]) == ("", "", "")
    assert second["quote"] == COMPOST and "is_gone" not in second
    assert {one["source"]["name"] for one in row.sources if one["content"]} == {
        "garden.txt",
        "library.txt",
    }
    assert not row.events.exists() and redact_deleted() == 0, "nothing is left to do"
    client = client_for(world.user)
    error_of(client.get(f"/api/messages/{row.key}/citations/1"), 404)
    assert ok(client.get(f"/api/messages/{row.key}/citations/2"))["text"] == COMPOST
    assert ok(client.get(f"/api/messages/{row.key}"))["content"] == shown["content"]


def test_a_merged_passage_goes_with_any_of_its_parts(world: AgentWorld) -> None:
    said = [f'<cite doc_id="doc_01" quote="{quote}">{quote[:30]}</cite>' for quote in PARTS]
    world.use(" ".join(said))
    world.set(enable_memory=True)
    told = world.ask("How often is the pump serviced, what of its filter and warranty?")
    (source,) = (one for one in told.row.sources if one["doc_id"] == "doc_01")
    chunks = rag_models.Chunk.objects.filter(file=source["file_id"]).order_by("ordinal")
    pinned = [(one["chunk_id"], one["page"]) for one in told.row.citations]
    assert pinned == [(chunk.pk, chunk.page_first) for chunk in chunks]
    client = client_for(world.user)
    urls = [f"/api/messages/{told.row.key}/citations/{number}" for number in (1, 2, 3)]
    assert [ok(client.get(url))["text"] for url in urls] == list(PARTS)
    delete_chunks(scope=Scope.operator(), chunk_ids=[chunks[1].pk], by=None)
    shown = ok(client.get(f"/api/messages/{told.row.key}"))
    assert PARTS[1][:30] not in str(shown) and shown["content"].count("[…]") == 1
    assert [one.get("is_gone", False) for one in shown["citations"]] == [False, True, False]
    assert redact_deleted() == 0 and purge_orphaned_answers() == 0
    assert said_anywhere(PARTS[1][:30]) == [], "the memory is gone too, at commit"
    assert ok(client.get(urls[2]))["text"] == PARTS[2]
    error_of(client.get(urls[1]), 404)
    memory = RAGAgentMemory(world.scope, "desk")
    assert async_to_sync(memory.retrieve_relevant_memories)("pump serviced filter warranty") == []


def test_a_quote_over_two_parts_goes_with_either(world: AgentWorld) -> None:
    quote = f"{PARTS[0]} {PARTS[1]}"
    world.use(f'<cite doc_id="doc_01" quote="{quote}">Often enough.</cite>')
    told = world.ask("How often is the pump serviced, what of its filter and warranty?")
    (cited,) = told.row.citations
    assert cited["verdict"] == "verified"
    client = client_for(world.user)
    read = ok(client.get(f"/api/messages/{told.row.key}/citations/1"))
    assert " ".join(read["text"].split()) == quote and (read["start"], read["end"]) == (
        0,
        len(read["text"]),
    )
    filters = rag_models.Chunk.objects.filter(text=PARTS[1]).values_list("pk", flat=True)
    delete_chunks(scope=Scope.operator(), chunk_ids=list(filters), by=None)
    shown = ok(client.get(f"/api/messages/{told.row.key}"))
    assert shown["content"] == "[…][1]" and PARTS[1] not in str(shown)
    error_of(client.get(f"/api/messages/{told.row.key}/citations/1"), 404)


def test_an_answer_that_is_being_written_is_stopped(world: AgentWorld) -> None:
    told = answered(world)
    models.Message.objects.filter(pk=told.row.pk).update(status="running")
    delete("garden.txt")
    assert told.row.status == "stopped" and "fortnight" not in told.row.content


def test_a_text_without_verdicts_goes_whole(world: AgentWorld) -> None:
    citations = [
        {"number": n, "doc_id": "doc_01", "claim": claim, "chunk_id": chunk_id}
        for n, claim, chunk_id in (
            (1, "same", 10**9),
            (11, "same", None),
            (2, "", 10**9),
            (3, "x", 10**9),
        )
    ]
    session = models.Session.objects.create(agent=world.agent, user=world.user)
    message = models.Message(
        pk=1, session=session, content="same [11] no same[1] same same[11] [2]", citations=citations
    )
    shown = redact_unreadable(messages=[message], scope=Scope.operator())[1]
    assert shown.content == "[…][11][1][11][2]", "nobody knows what each of its words rests on"
    assert redact_unreadable(messages=[], scope=Scope.anonymous()) == {}


def test_a_page_s_document_of_ours_goes_with_the_right_to_read_it(world: AgentWorld) -> None:
    file = rag_models.File.objects.filter(store=world.store).first()
    assert file is not None
    source = {
        "content": "secret words",
        "content_type": "url",
        "doc_id": "doc_01",
        "chunk_id": None,
        "score": 1.0,
        "source_name": "page",
        "source": {"type": "url", "name": "a", "id": f"/files/{file.pk}"},
    }
    cited = {
        "number": 1,
        "doc_id": "doc_01",
        "quote": "secret words",
        "claim": "It is.",
        "chunk_id": None,
    }
    session = models.Session.objects.create(agent=world.agent, user=world.user)
    message = models.Message(
        pk=1, session=session, content="It is.[1]", sources=[source], citations=[cited]
    )
    stranger = Scope(user_id=UserFactory().pk)
    shown = redact_unreadable(messages=[message], scope=stranger)[1]
    assert shown.content == "[…][1]" and "secret" not in str(shown)
    url = "https://example.org/a"
    outside = {**source, "source": {"type": "url", "name": url, "id": url}}
    message.sources = [outside]
    assert redact_unreadable(messages=[message], scope=stranger)[1].content == "It is.[1]"


def summed_up(told: Any, text: str) -> models.Message:
    """Let a summary of what was said stand with the answer, and return the question after it."""
    models.Message.objects.filter(pk=told.row.pk).update(summary=text)
    return models.Message.objects.create(
        session=told.row.session, parent=told.row, role="user", content="And then?"
    )


def test_no_model_hears_of_a_deleted_file_from_the_history(world: AgentWorld) -> None:
    told = answered(world)
    question = summed_up(told, "Serviced every 30 days.")
    assert history_before(message=question) == ([], "Serviced every 30 days.")
    delete("pump manual.txt")
    turns, summary = history_before(message=question)
    assert summary == ""
    assert [turn["content"] for turn in turns][1:] == [
        "Hello. […][1] And compost each fortnight.[2]"
    ]


def test_a_summary_goes_with_the_words_and_is_not_missed(world: AgentWorld) -> None:
    told = answered(world)
    question = summed_up(told, "Serviced every 30 days.")
    delete("pump manual.txt")
    assert said_anywhere("30 days") == []
    turns, summary = history_before(message=question)
    assert (len(turns), summary) == (2, "")


def test_what_a_reader_lost_is_no_history_of_theirs(world: AgentWorld) -> None:
    told = answered(world)
    question = summed_up(told, "Serviced every 30 days.")
    rag_models.Store.objects.filter(pk=world.store.pk).update(owner=UserFactory(), is_public=False)
    turns, summary = history_before(message=question)
    assert summary == "" and "30 days" not in str(turns)


def test_other_conversations_keep_their_summaries(world: AgentWorld) -> None:
    told = answered(world)
    other = world.ask("Hello", session=None)
    models.Message.objects.filter(pk=other.row.pk).update(summary="They greeted.")
    delete("pump manual.txt")
    redact_deleted()
    assert models.Message.objects.get(pk=other.row.pk).summary == "They greeted."
    assert told.row.session_id != other.row.session_id

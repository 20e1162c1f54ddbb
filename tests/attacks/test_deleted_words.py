"""Attack: get back the words of a deleted or hidden file from what was answered with them.

Before: uncited sentences, titles, memories, kept queries, the conversation page, searches in them
and the events of running answers had them, rows until the next night.
"""

from __future__ import annotations

import json
from threading import Thread
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from agents import models
from agents.chat.history.history import history_before
from agents.runtime.redaction import LostWords, without_statements
from rag import models as rag_models
from rag.core.access import Scope
from rag.services.files.delete import delete_files
from rag.services.operations.doctor import repair, run_checks
from tests.edges.api_client import client_for, ok
from tests.factories import FileFactory, StoreFactory, UserFactory, publish
from tests.integration.agent_world import AgentWorld, settled, world
from tests.integration.chat.test_gone_evidence import said_anywhere

__all__ = ["settled", "world"]
SECRET = "The xylophone costs 4711 crowns in the northern warehouse."
QUESTION = "What does the instrument of the warehouse cost in crowns?"


@pytest.fixture
def secret(world: AgentWorld) -> rag_models.File:
    """Return the file that is taken away later, in a store of its own."""
    store = StoreFactory(owner=UserFactory(), is_public=True, slug="secrets", name="Secrets")
    file: rag_models.File = FileFactory(store=store, name="price.txt")
    publish(file, SECRET)
    return file


def answered(world: AgentWorld) -> list[models.Message]:
    """Return three answers of a session that all know the secret: cited, uncited, from history."""

    def said(request: Any) -> str:
        last = request.messages[-1].content
        if "<answer>" in last:
            return "Xylophone for 4711"
        if "again" in last and SECRET not in last:
            return "As I said: the xylophone is 4711 crowns."
        at = last[: last.find("xylophone")].rpartition('id="')[2][:6]
        return (
            f'## Xylophone\n\n<cite doc_id="{at}" quote="{SECRET}">4711 crowns.</cite> '
            "The price of that xylophone is high. Did the xylophone surprise you? Hello."
        )

    world.use(said)
    world.set(default_top_k=20, enable_memory=True, session_titles="model")
    first = world.ask(QUESTION)
    second = world.ask("Tell me again, please.", session=str(first.row.session.key))
    assert "4711" in first.row.content and "4711" in second.row.content, second.row.content
    assert first.row.session.title == "Xylophone for 4711"
    models.Memory.objects.create(
        user=world.user,
        kind="episodic",
        subject="cost",
        text="What does it cost?",
        answer="4711 crowns",
        chunk_ids=first.row.chunk_ids,
    )
    return [first.row, second.row]


def take(secret: rag_models.File, is_deleted: bool) -> None:
    if is_deleted:
        delete_files(scope=Scope.operator(), file_ids=[secret.pk])
    else:
        rag_models.Store.objects.filter(pk=secret.store_id).update(is_public=False)


def told_everywhere(world: AgentWorld, rows: list[models.Message]) -> str:
    """Return all that the reader's own addresses tell."""
    client: Client = client_for(world.user)
    session = rows[0].session.key
    urls = [
        "/api/sessions",
        f"/api/sessions/{session}",
        f"/api/sessions/{session}/messages",
        "/api/messages",
        "/api/memories",
        "/api/sessions?title=xylophone",
        "/api/memories?q=4711",
        *(f"/api/messages/{row.key}" for row in rows),
        *(f"/api/messages/{row.key}/trace" for row in rows),
    ]
    found = [ok(client.get(url)) for url in urls]
    assert not found[5]["results"] and not found[6]["results"], "a search is no oracle"
    followed = [client.get(f"/api/messages/{row.key}/events") for row in rows]
    streams = [b"".join(one.streaming_content).decode() for one in followed if one.streaming]
    turns = [history_before(message=row, is_included=True) for row in rows]
    return json.dumps([found, streams, turns], ensure_ascii=False)


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "hidden"])
def test_no_address_tells_what_was_taken(
    world: AgentWorld, secret: rag_models.File, is_deleted: bool
) -> None:
    rows = answered(world)
    take(secret, is_deleted)
    text = told_everywhere(world, rows)
    assert "4711" not in text and "xylophone" not in text.casefold()
    assert "Hello." in text and QUESTION in text, "what rests on nothing stays"
    if is_deleted:
        assert said_anywhere("4711") == [] and said_anywhere("ylophone") == []
        assert kept() == []


def kept() -> list[Any]:
    return [one for _, _, found in run_checks(only=["kept"]) for one in found]


def test_the_doctor_finds_what_a_restored_dump_brought_back(
    world: AgentWorld, secret: rag_models.File
) -> None:
    answered(world)
    with connection.cursor() as cursor:
        # As a dump of the answers alone would: nobody was told of the deletion.
        chunks = list(secret.chunks.values_list("pk", flat=True))
        cursor.execute("DELETE FROM rag_chunkrevision WHERE chunk_id = ANY(%s)", [chunks])
        cursor.execute("DELETE FROM rag_chunk WHERE id = ANY(%s)", [chunks])
    found = kept()
    assert {one.facts["kind"] for one in found} == {"answers", "memories"}
    assert all(one.level == "error" for one in found)
    for one in found:
        assert repair(finding=one).level == "fixed"
    assert kept() == [] and said_anywhere("4711") == []


def test_a_deletion_while_an_answer_is_written_stops_it_and_leaves_no_word(
    world: AgentWorld, secret: rag_models.File
) -> None:
    def delete() -> None:
        delete_files(scope=Scope.operator(), file_ids=[secret.pk])
        connection.close()

    def said(request: Any) -> str:
        thread = Thread(target=delete)
        thread.start()
        thread.join()
        return "The xylophone costs 4711 crowns."

    world.use(said)
    world.set(default_top_k=20)
    told = world.ask(QUESTION)
    assert "4711" not in told.row.content and kept() == []
    assert said_anywhere("4711") == []


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Hello. Costs 4711.", "Hello. […]"),
        ("# Xylophone\nHello.", "# […]\nHello."),
        ("# Warehouse\n", "# Warehouse\n"),
    ],
)
def test_what_has_no_verdict_goes_by_words_that_only_lost_passages_have(
    text: str, left: str
) -> None:
    words = LostWords([SECRET], ["What is in the warehouse?"])
    shown, _ = without_statements(text, [], [], {"doc_02"}, words)
    assert shown.replace("[…]", "# […]") == left or shown == left


def test_a_tool_s_result_holds_nothing_that_is_gone() -> None:
    statement = {
        "start": 0,
        "end": 5,
        "verdict": "attributed",
        "citations": [],
        "doc_id": "tool_01",
    }
    told, _ = without_statements("Words", [statement], [], {"doc_01"}, LostWords((), ()))
    assert told == "[…]"

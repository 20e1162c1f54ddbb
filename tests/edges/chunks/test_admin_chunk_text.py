"""Chunks are written in the admin: edited, brought back, added, deleted, decided on."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from rag import models
from rag.services.chunks.edit import edit_chunk
from tests.edges.admin_client import at, client_of, page, post_action, use_words_embedder, words
from tests.factories import EDITOR, FileFactory, GroupFactory, StoreFactory, UserFactory, publish
from tests.integration.chunk_desk import OPERATOR, check_index, found

pytestmark = pytest.mark.django_db
WRITER = (*EDITOR, "add_chunk", "delete_chunk", "view_chunkconflict")
HTML = "<script>alert(1)</script>"
TEXTS = ("the pump is serviced yearly", "水泵的保修期为两年", "the valve closes by itself")


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> Any:
    use_words_embedder(monkeypatch, settings)
    return FileFactory(store=StoreFactory(owner=UserFactory(permissions=WRITER)), name="book.txt")


@pytest.fixture
def client(file: Any) -> Client:
    return client_of(file.store.owner)


def save(client: Client, chunk: Any, text: str, seen: int = 1) -> Any:
    data = {"text": text, "seen": seen}
    return client.post(at("rag_chunk_text", chunk.pk), data, follow=True)


def test_a_text_is_edited_in_place(client: Client, file: Any) -> None:
    chunk = publish(file, *TEXTS)[1]
    shown = page(client, "rag_chunk_change", chunk.pk)
    assert f"required>\n{TEXTS[1]}</textarea>" in shown
    response = save(client, chunk, "水泵的保修期为三年\r\n含quasar")
    assert response.redirect_chain[-1][0] == at("rag_chunk_change", chunk.pk)
    assert "The text was saved and is found by its new words from now on." in words(
        response.content.decode()
    )
    chunk.refresh_from_db()
    assert (chunk.text, chunk.revision, chunk.edited_by) == (
        "水泵的保修期为三年\n含quasar",
        2,
        file.store.owner,
    )
    assert found(file.store, "quasar") == [chunk.pk]
    assert found(file.store, "两年") == []
    assert "edited" in words(page(client, "rag_chunk_changelist", touched="edited"))
    check_index(file.store)
    assert "The text is as it was." in words(save(client, chunk, chunk.text, 2).content.decode())


def test_the_way_back_from_a_saved_text_leads_to_the_list_as_it_was(
    client: Client, file: Any
) -> None:
    chunk = publish(file, *TEXTS)[0]
    filters = "_changelist_filters=q%3Dpump%26file%3D1"
    shown = client.get(f"{at('rag_chunk_change', chunk.pk)}?{filters}").content.decode()
    address = f"{at('rag_chunk_text', chunk.pk)}?{filters}"
    assert f'action="{address}"' in shown
    response = client.post(address, {"text": "the pump rests", "seen": 1}, follow=True)
    assert response.redirect_chain[-1][0] == f"{at('rag_chunk_change', chunk.pk)}?{filters}"
    assert f'href="{at("rag_chunk_changelist")}?q=pump&amp;file=1"' in response.content.decode()
    other = client.post(
        f"{at('rag_chunk_text', chunk.pk)}?next=//evil.example",
        {"text": "the pump runs", "seen": 2},
    )
    assert other["Location"] == at("rag_chunk_change", chunk.pk)


def test_what_cannot_be_saved_is_said_and_nothing_typed_is_lost(client: Client, file: Any) -> None:
    chunk = publish(file, *TEXTS)[0]
    long = "word " * 501
    response = save(client, chunk, long)
    assert response.status_code == 422
    assert "The text has 501 tokens; a chunk may have 500. Make two chunks of it." in words(
        response.content.decode()
    )
    assert long in response.content.decode()
    assert "A chunk needs a text." in words(save(client, chunk, "  ").content.decode())
    chunk.refresh_from_db()
    assert chunk.revision == 1


def test_who_comes_second_sees_what_the_first_one_wrote(client: Client, file: Any) -> None:
    chunk = publish(file, *TEXTS)[0]
    save(client, chunk, "the pump was replaced")
    response = save(client, chunk, "the pump was sold", seen=1)
    text = response.content.decode()
    assert response.status_code == 422
    assert "Somebody else changed this chunk meanwhile: it is at revision 2, you saw 1." in words(
        text
    )
    assert "<del>replaced</del><ins>sold</ins>" in text
    assert 'name="seen" value="2"' in text
    assert "the pump was sold</textarea>" in text
    assert save(client, chunk, "the pump was sold", seen=2).status_code == 200
    chunk.refresh_from_db()
    assert (chunk.text, chunk.revision) == ("the pump was sold", 3)


def test_revisions_show_what_changed_and_one_is_brought_back(client: Client, file: Any) -> None:
    chunk = publish(file, "the pump runs", "x")[0]
    save(client, chunk, "the pump stopped")
    shown = page(client, "rag_chunk_revisions", chunk.pk)
    assert "<del>runs</del><ins>stopped</ins>" in shown
    assert f"replaced by {file.store.owner.username}" in words(shown)
    data = {"revision": 1, "seen": 2}
    response = client.post(at("rag_chunk_revisions", chunk.pk), data, follow=True)
    assert "The earlier text was brought back as a new revision." in words(
        response.content.decode()
    )
    chunk.refresh_from_db()
    assert (chunk.text, chunk.revision) == ("the pump runs", 3)
    stale = client.post(at("rag_chunk_revisions", chunk.pk), data)
    assert stale.status_code == 422
    assert "it is at revision 3" in words(stale.content.decode())
    missing = client.post(at("rag_chunk_revisions", chunk.pk), {"revision": "x", "seen": 3})
    assert "The chunk has no revision 0." in words(missing.content.decode())


def test_a_chunk_is_added_behind_another_or_first(client: Client, file: Any) -> None:
    chunk = publish(file, *TEXTS)[0]
    address = at("rag_chunk_add_to", file.pk)
    assert f"{address}?after={chunk.pk}" in page(client, "rag_chunk_change", chunk.pk)
    assert address in page(client, "rag_chunk_changelist", file=file.pk)
    assert TEXTS[0] in words(client.get(f"{address}?after={chunk.pk}").content.decode())
    response = client.post(f"{address}?after={chunk.pk}", {"text": "a quasar"}, follow=True)
    assert "The chunk was added and is found from now on." in words(response.content.decode())
    client.post(address, {"text": "at the top"})
    rows = client.get(at("rag_chunk_changelist", file=file.pk)).context["cl"].result_list
    assert [row.start_of_text for row in rows] == ["at the top", TEXTS[0], "a quasar", *TEXTS[1:]]
    assert [row.position for row in rows] == ["+2", "0", "+1", "1", "2"]
    assert client.get(f"{address}?after=999999999").status_code == 404
    late = client.post(f"{address}?after=999999999", {"text": "late"})
    assert "The file has no chunk 999999999." in words(late.content.decode())
    refused = client.post(address, {"text": " "})
    assert (refused.status_code, "A chunk needs a text." in words(refused.content.decode())) == (
        422,
        True,
    )
    check_index(file.store)


def test_chunks_are_deleted_one_by_one_and_together(
    client: Client, file: Any, django_capture_on_commit_callbacks: Any
) -> None:
    chunks = publish(file, *TEXTS)
    with django_capture_on_commit_callbacks(execute=True):
        client.post(at("rag_chunk_delete", chunks[0].pk), {"post": "yes"})
    assert list(models.Chunk.objects.values_list("text", flat=True)) == list(TEXTS[1:])
    with django_capture_on_commit_callbacks(execute=True):
        post_action(client, "chunk", "delete_selected", [chunks[1].pk, chunks[2].pk], post="yes")
    assert not models.Chunk.objects.exists()
    assert models.DroppedSpan.objects.filter(dropped_by=file.store.owner).count() == 3
    check_index(file.store)


@pytest.fixture
def conflict(file: Any) -> models.ChunkConflict:
    chunk = publish(file, "old words", "more")[0]
    edit_chunk(
        scope=OPERATOR, chunk_id=chunk.pk, text="the quasar pump", by=None, expected_revision=1
    )
    publish(file, *TEXTS)
    return models.ChunkConflict.objects.create(
        file=file, chunk=chunk, char_start=3, file_revision=2
    )


@pytest.mark.parametrize(
    ("deed", "told", "texts"),
    [
        ("keep", "chunk of its own now", [TEXTS[0], "the quasar pump", *TEXTS[1:]]),
        ("put", "took the other chunk's place", ["the quasar pump", *TEXTS[1:]]),
        ("drop", "The text was dropped.", list(TEXTS)),
    ],
)
def test_a_text_without_a_place_is_decided_on(
    client: Client, file: Any, conflict: Any, deed: str, told: str, texts: list[str]
) -> None:
    listed = page(client, "rag_chunkconflict_changelist", file=file.pk)
    address = at("rag_conflict_decide", conflict.pk)
    assert address in listed
    assert "the quasar pump" in words(listed)
    assert at("rag_chunkconflict_changelist") in page(client, "rag_chunk_changelist", file=file.pk)
    shown = client.get(address).content.decode()
    assert "<del>is serviced yearly</del>" in shown or "<ins>quasar" in shown
    near = models.Chunk.objects.live().get(text=TEXTS[0])
    response = client.post(address, {"deed": deed, "near": near.pk, "seen": 1}, follow=True)
    assert told in words(response.content.decode())
    live = models.Chunk.objects.live().filter(file=file)
    assert list(live.values_list("text", flat=True)) == texts
    assert client.get(address).status_code == 404
    check_index(file.store)


def test_a_decision_that_is_none_or_too_late_changes_nothing(client: Client, conflict: Any) -> None:
    address = at("rag_conflict_decide", conflict.pk)
    assert client.post(address, {"deed": "burn"}).status_code == 200
    near = models.Chunk.objects.live().get(text=TEXTS[0])
    stale = client.post(address, {"deed": "put", "near": near.pk, "seen": 9})
    assert stale.status_code == 422
    assert "it is at revision 1, you saw 9" in words(stale.content.decode())
    assert models.ChunkConflict.objects.count() == 1


def pages_of(file: Any, chunk: Any, conflict: Any) -> list[str]:
    return [
        at("rag_chunk_changelist"),
        at("rag_chunk_changelist", file=file.pk),
        at("rag_chunk_change", chunk.pk),
        at("rag_chunk_text", chunk.pk),
        at("rag_chunk_revisions", chunk.pk),
        at("rag_chunk_add_to", file.pk, after=chunk.pk),
        at("rag_chunkconflict_changelist"),
        at("rag_conflict_decide", conflict.pk),
        at("rag_chunk_preview", file.store_id, file=file.pk),
    ]


def test_markup_is_only_text_on_every_page(client: Client, file: Any, conflict: Any) -> None:
    models.File.objects.filter(pk=file.pk).update(name=HTML, canonical_text=f"{HTML} of the file")
    chunk = models.Chunk.objects.live().get(text=TEXTS[0])
    save(client, chunk, f"text {HTML}")
    chunk.refresh_from_db()
    save(client, chunk, f"text </textarea>{HTML} more", 2)
    models.Chunk.objects.filter(pk=conflict.chunk_id).update(text=f"mine {HTML}")
    models.Store.objects.filter(pk=file.store_id).update(name=HTML)
    for address in pages_of(file, chunk, conflict):
        shown = client.get(address)
        assert shown.status_code == 200, address
        text = shown.content.decode()
        assert "<script>alert(1)" not in text, address
        assert "alert(1)" in text, address


def test_readers_read_and_strangers_see_nothing(file: Any, conflict: Any) -> None:
    chunk, group = models.Chunk.objects.live().get(text=TEXTS[0]), GroupFactory()
    edit_chunk(scope=OPERATOR, chunk_id=chunk.pk, text="quasarium", by=None, expected_revision=1)
    file.store.reader_groups.add(group)
    reader = client_of(UserFactory(permissions=(*WRITER, "change_store"), groups=[group]))
    shown = page(reader, "rag_chunk_change", chunk.pk)
    assert "<textarea" not in shown
    for name, pk, data in (
        ("rag_chunk_text", chunk.pk, {"text": "x", "seen": 2}),
        ("rag_chunk_revisions", chunk.pk, {"revision": 1, "seen": 2}),
        ("rag_conflict_decide", conflict.pk, {"deed": "drop"}),
        ("rag_chunk_preview", file.store_id, {"size": 100, "overlap": 0}),
    ):
        assert reader.get(at(name, pk)).status_code == 200, name
        assert reader.post(at(name, pk), data).status_code == 403, name
    assert reader.get(at("rag_chunk_add_to", file.pk)).status_code == 404
    assert reader.post(at("rag_chunk_delete", chunk.pk), {"post": "yes"}).status_code == 403
    stranger = client_of(UserFactory(permissions=WRITER))
    for address in pages_of(file, chunk, conflict):
        response = stranger.get(address)
        assert response.status_code == 404 or "quasarium" not in response.content.decode(), address
    nobody = client_of(UserFactory())
    for address in pages_of(file, chunk, conflict):
        assert nobody.get(address).status_code in (302, 403), address
    chunk.refresh_from_db()
    assert (chunk.text, models.ChunkConflict.objects.count()) == ("quasarium", 1)


def test_pages_take_few_queries_and_leave_the_file_s_text_alone(
    client: Client, file: Any, conflict: Any
) -> None:
    chunk = models.Chunk.objects.live().get(text=TEXTS[0])
    for address in pages_of(file, chunk, conflict):
        with CaptureQueriesContext(connection) as captured:
            client.get(address)
        queries = [entry["sql"] for entry in captured.captured_queries]
        assert len(queries) <= 26, (address, len(queries))
        assert not any(
            re.search(r'^SELECT[^;]*(?<!\()"rag_file"\."canonical_text"[,\s]', sql)
            for sql in queries
        ), address
        counts = [
            sql
            for sql in queries
            if "COUNT(*)" in sql and "LIMIT" not in sql and "own_start" not in sql
        ]
        assert counts == [], address


def test_the_list_of_touched_chunks_goes_by_its_index(client: Client, file: Any) -> None:
    publish(file, *(f"text {n}" for n in range(50)))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE rag_chunk")
        cursor.execute("SET LOCAL enable_seqscan = off")
        for choice in ("edited", "added", "off"):
            rows = client.get(at("rag_chunk_changelist", touched=choice)).context["cl"].queryset
            cursor.execute(
                "EXPLAIN "
                + str(rows.query)
                .replace("= edited", "= 'edited'")
                .replace("= added", "= 'added'")
                .replace("= parsed", "= 'parsed'")
            )
            plan = " ".join(row[0] for row in cursor.fetchall())
            assert "rag_chunk_touched" in plan, (choice, plan)

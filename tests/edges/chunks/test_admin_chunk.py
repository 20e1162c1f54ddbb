"""Chunks in the admin: read as they are, found by their words, switched off and on."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client

from rag import models
from rag.core.access import Scope
from rag.services.chunks import find as service
from tests.edges.admin_client import at, client_of, page, post_action, use_words_embedder, words
from tests.factories import EDITOR, ChunkFactory, FileFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db


@pytest.fixture
def file() -> Any:
    return FileFactory(store=StoreFactory(owner=UserFactory(permissions=EDITOR)), name="book.txt")


@pytest.fixture
def client(file: Any) -> Client:
    return client_of(file.store.owner)


def found(file: models.File, text: str) -> list[int]:
    chunks = service.find_chunks(
        chunks=models.Chunk.objects.all(), scope=Scope.operator(), words=text
    )
    return list(chunks.filter(file=file).order_by("ordinal").values_list("ordinal", flat=True))


def test_the_list_shows_where_each_chunk_is_from(client: Client, file: Any) -> None:
    publish(file, "first   text", "second text")
    models.Chunk.objects.filter(ordinal=1).update(
        heading_path=["Part", "One"], enabled=False, page_last=3
    )
    text = words(page(client, "rag_chunk_changelist"))
    assert "first text" in text
    assert "Part › One" in text
    assert "2–3" in text
    assert "book.txt" in text


def test_chunks_are_filtered_by_store_file_state_and_revision(client: Client, file: Any) -> None:
    other = FileFactory(store=StoreFactory(owner=file.store.owner))
    publish(file, "alpha", "beta")
    publish(other, "gamma")
    publish(file, "alpha", "delta")
    models.Chunk.objects.filter(text="alpha").update(enabled=False)
    for query, texts in (
        ({}, {"alpha", "delta", "gamma"}),
        ({"store": file.store.pk}, {"alpha", "delta"}),
        ({"file": other.pk}, {"gamma"}),
        ({"enabled__exact": "0"}, {"alpha"}),
        ({"live": "no"}, {"beta"}),
        ({"file": other.pk, "q": "alpha"}, set()),
    ):
        rows = client.get(at("rag_chunk_changelist", **query)).context["cl"].result_list
        assert {row.start_of_text for row in rows} == texts, query


def test_a_chunk_is_shown_word_for_word_and_escaped(client: Client, file: Any) -> None:
    evil = "line one\n  <img src=x onerror=alert(1)>\n\nline two"
    chunk = publish(file, evil)[0]
    models.Chunk.objects.filter(pk=chunk.pk).update(
        context="<script>alert(2)</script>", heading_path=["<script>alert(3)</script>"]
    )
    shown = page(client, "rag_chunk_change", chunk.pk)
    assert "line one\n  &lt;img src=x onerror=alert(1)&gt;\n\nline two" in shown
    for address in (at("rag_chunk_change", chunk.pk), at("rag_chunk_changelist")):
        body = client.get(address).content.decode()
        assert "<img src=x" not in body
        assert "<script>alert" not in body
    assert f"{at('rag_file_text', file.pk)}?at={chunk.char_start}-{chunk.char_end}#mark" in shown


def test_facts_cannot_be_rewritten(client: Client, file: Any) -> None:
    chunk = publish(file, "as it was")[0]
    client.post(
        at("rag_chunk_change", chunk.pk), {"text": "changed", "enabled": "on", "token_count": 1}
    )
    chunk.refresh_from_db()
    assert (chunk.text, chunk.enabled) == ("as it was", True)
    assert client.get(at("rag_chunk_delete", chunk.pk)).status_code == 403


def test_a_switched_off_chunk_is_out_of_both_indexes(client: Client, file: Any) -> None:
    chunks = publish(file, "one", "two", "three")
    response = post_action(client, "chunk", "disable", [chunks[0].pk, chunks[1].pk])
    assert "2 chunks were switched off." in response.content.decode()
    assert flags(file) == [False, False, True]
    post_action(client, "chunk", "enable", [chunks[0].pk])
    assert flags(file) == [True, False, True]
    client.post(at("rag_chunk_change", chunks[2].pk), {})
    assert flags(file) == [True, False, False]


def flags(file: models.File) -> list[bool]:
    """Return the flags of the file's chunks, which the row and both index rows must share."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.enabled, v.enabled, l.enabled FROM rag_chunk c"
            " JOIN rag_chunk_vec v ON v.chunk_id = c.id JOIN rag_chunk_lex l ON l.chunk_id = c.id"
            " WHERE c.file_id = %s ORDER BY c.ordinal",
            [file.pk],
        )
        rows = cursor.fetchall()
    assert all(len(set(row)) == 1 for row in rows)
    return [row[0] for row in rows]


def test_a_switched_off_chunk_is_not_found_by_the_search_but_in_the_list(
    client: Client, file: Any, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    use_words_embedder(monkeypatch, settings)
    chunk = publish(file, "a lonely quasar", "something else")[0]
    post_action(client, "chunk", "disable", [chunk.pk])
    search = client.get(at("rag_store_search", file.store.pk, q="quasar")).context
    assert chunk.pk not in [shown["hit"].chunk_id for shown in search["hits"]]
    rows = client.get(at("rag_chunk_changelist", q="quasar")).context["cl"].result_list
    assert [row.pk for row in rows] == [chunk.pk]


@pytest.mark.parametrize("read_up_to", [20_000, 0])
def test_the_list_finds_words_as_written(
    file: Any, read_up_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "READ_UP_TO", read_up_to)
    publish(
        file,
        "员工手册规定年假为二十天",
        "The manual covers citations and codes A-1203.",
        "年终奖 Bonus",
        "the annual 100% report",
    )
    for words_asked, ordinals in (
        ("年假", [0]),
        ("手册规定", [0]),
        ("手册", [0]),
        ("citations", [1]),
        ("CITATIONS codes", [1]),
        ("1203", [1]),
        ("A-1203", [1]),
        ("bonus 年终奖", [2]),
        ("bonus 年假", []),
        ("the", [1, 3]),
        ("quasar", []),
        ("\0quasar", []),
    ):
        assert found(file, words_asked) == ordinals, words_asked


@pytest.mark.parametrize("read_up_to", [20_000, 0])
def test_words_of_replaced_chunks_are_found_too(
    client: Client, file: Any, read_up_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "READ_UP_TO", read_up_to)
    replaced = publish(file, "the lonely quasar", "a pump")[0]
    publish(file, "a pump", "a valve")
    for query, pks in (({"live": "no"}, [replaced.pk]), ({}, [])):
        address = at("rag_chunk_changelist", q="quasar", **query)
        rows = client.get(address).context["cl"].result_list
        assert [row.pk for row in rows] == pks


def test_signs_of_the_database_are_only_signs(file: Any) -> None:
    publish(file, "100% sure", "100 sure", "a_b", "aXb")
    assert found(file, "100%") == [0]
    assert found(file, "a_b") == [2]


def test_no_word_narrows_nothing(file: Any) -> None:
    publish(file, "one", "two")
    assert found(file, " ") == [0, 1]


def test_a_revision_is_shown_as_it_stood(client: Client, file: Any) -> None:
    chunk = ChunkFactory(file=file)
    revision = models.ChunkRevision.objects.create(
        chunk=chunk,
        revision=1,
        text="<b>before</b>",
        char_start=0,
        char_end=9,
        page_first=2,
        page_last=2,
        file_revision=1,
    )
    shown = page(client, "rag_chunkrevision_change", revision.pk)
    assert "&lt;b&gt;before&lt;/b&gt;" in shown
    assert "<b>before" not in shown

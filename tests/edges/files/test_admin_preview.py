"""Previews in the admin: borders over the text, numbers beside today's, nothing stored unasked."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from rag import models
from rag.admin.files import chunk_preview as preview_pages
from rag.admin.files.chunk_preview import split_by_chunks
from rag.core.documents import ChunkRule, ParsedDocument
from rag.stages.chunking.chunk import chunk_document
from tests.edges.admin_client import at, client_of, page, use_words_embedder, words
from tests.factories import EDITOR, FileFactory, StoreFactory, UserFactory
from tests.fakes.words_embedder import WordTokenizer
from tests.integration.index_desk import put, run_job

TEXT = "\n\n".join(
    f"Part {n}. The pump number {n} is serviced yearly by team {n * 3}. 水泵{n}号每年检修一次。"
    for n in range(40)
)


@pytest.fixture
def store(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> Any:
    use_words_embedder(monkeypatch, settings)
    owner = UserFactory(permissions=EDITOR)
    return StoreFactory(owner=owner, max_tokens_per_chunk=80, max_overlap_tokens=0)


@pytest.fixture
def file(store: Any) -> models.File:
    done = run_job(put(store, TEXT))
    assert done is not None
    return done


@pytest.fixture
def client(store: Any) -> Client:
    return client_of(store.owner)


def test_another_size_is_shown_beside_today_s(client: Client, store: Any, file: Any) -> None:
    context = client.get(at("rag_chunk_preview", store.pk, size=50, overlap=10)).context
    rule = ChunkRule(50, 10)
    made = list(chunk_document(ParsedDocument("txt", TEXT, ""), rule, WordTokenizer()))
    assert [(c.char_start, c.char_end) for c in context["preview"].chunks] == [
        (c.char_start, c.char_end) for c in made
    ]
    assert context["change"] == len(made) - models.Chunk.objects.count() > 0
    shown = words(page(client, "rag_chunk_preview", store.pk, size=50, overlap=10))
    assert f"At present {models.Chunk.objects.count()} (+{context['change']})" in shown
    assert "1 · " in shown
    own = words(page(client, "rag_chunk_preview", store.pk))
    assert f"At present {models.Chunk.objects.count()} (0)" in own
    assert "Use this for the store" not in own
    assert "Use this for the store" in shown


def test_the_present_and_the_chosen_template_stand_side_by_side(
    client: Client, store: Any, file: Any
) -> None:
    query = {"template": "qa", "size": 80, "overlap": 0}
    now, chosen = client.get(at("rag_chunk_preview", store.pk, **query)).context["columns"]
    assert (now.template, chosen.template) == (
        "Default of the installation: General text",
        "Questions and answers",
    )
    assert now.preview.n_chunks == models.Chunk.objects.count()
    assert now.lengths[0] <= now.lengths[1] <= now.lengths[2] <= 80
    assert [chunk.text for chunk in now.first] == [
        chunk.text for chunk in models.Chunk.objects.order_by("ordinal")[:5]
    ]
    shown = words(page(client, "rag_chunk_preview", store.pk, **query))
    assert "Chosen: Questions and answers" in shown
    answer = client.post(at("rag_chunk_preview", store.pk), query, follow=True)
    assert "1 file is cut anew by the queue" in words(answer.content.decode())
    store.refresh_from_db()
    assert store.splitter == "qa"
    assert models.ReindexRun.objects.get().what == "chunks"
    unknown = page(client, "rag_chunk_preview", store.pk, **query | {"template": "x"})
    assert "Select a valid choice. x is not one of the available choices." in words(unknown)


def test_a_rule_is_kept_for_the_store_only_when_asked(
    client: Client, store: Any, file: Any
) -> None:
    n_chunks = models.Chunk.objects.count()
    response = client.post(
        at("rag_chunk_preview", store.pk), {"size": 50, "overlap": 10}, follow=True
    )
    text = words(response.content.decode())
    assert "The store cuts files by this rule from now on." in text
    assert "Files keep their chunks until their store is indexed again." in text
    store.refresh_from_db()
    assert (store.max_tokens_per_chunk, store.max_overlap_tokens) == (50, 10)
    assert models.Chunk.objects.count() == n_chunks
    client.post(at("rag_chunk_preview", store.pk), {"size": 9, "overlap": "x"})
    store.refresh_from_db()
    assert store.max_tokens_per_chunk == 50


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"size": 49}, "chunk size: Ensure this value is greater than or equal to 50."),
        ({"size": "x"}, "chunk size: Enter a whole number."),
        ({"overlap": 101}, "overlap: Ensure this value is less than or equal to 100."),
        (
            {"size": 60, "overlap": 80},
            "An overlap of 80 tokens would swallow chunks of 60: 27 is used.",
        ),
    ],
)
def test_a_rule_that_cannot_be_is_told(
    client: Client, store: Any, file: Any, query: Any, told: str
) -> None:
    assert told in words(page(client, "rag_chunk_preview", store.pk, **query))


def test_a_store_without_files_and_foreign_files(client: Client, store: Any) -> None:
    assert "No file of the store has been read yet." in words(
        page(client, "rag_chunk_preview", store.pk)
    )
    foreign = FileFactory(revision=1)
    assert client.get(at("rag_chunk_preview", store.pk, file=foreign.pk)).status_code == 404
    assert client.get(at("rag_chunk_preview", foreign.store_id)).status_code == 404
    FileFactory(store=store, revision=1)
    assert "has no text yet" in words(page(client, "rag_chunk_preview", store.pk))


def test_a_long_text_is_shown_window_by_window(
    client: Client, store: Any, file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview_pages, "WINDOW", 1000)
    seen, at_character = "", 0
    while at_character is not None:
        context = client.get(
            at("rag_chunk_preview", store.pk, size=60, overlap=5, at=at_character)
        ).context
        seen += "".join(piece.text for piece in context["pieces"])
        at_character = context["after"]
    assert seen == TEXT
    past = client.get(at("rag_chunk_preview", store.pk, at=10**17))
    assert past.status_code == 200


@given(
    st.integers(50, 90),
    st.integers(0, 40),
    st.integers(0, 2000),
    st.integers(1, 1500),
    st.booleans(),
)
def test_pieces_are_the_text_and_borders_are_those_of_chunks(
    size: int, overlap: int, start: int, length: int, has_hole: bool
) -> None:
    holes = [(200, 320)] if has_hole else []
    chunks = list(
        chunk_document(
            ParsedDocument("txt", TEXT, ""), ChunkRule(size, overlap), WordTokenizer(), holes
        )
    )
    end = min(len(TEXT), start + length)
    start = min(start, end)
    pieces = split_by_chunks(TEXT, (start, end), chunks, holes)
    assert "".join(piece.text for piece in pieces) == TEXT[start:end]
    place, begun = start, {}
    for piece in pieces:
        if piece.number:
            begun[piece.number] = place
        owner = next((c for c in chunks if c.own_start <= place < c.char_end), None)
        in_hole = any(low <= place < high for low, high in holes)
        assert piece.is_kept == in_hole
        assert (piece.parity is not None) == (owner is not None and not in_hole)
        assert piece.is_repeated == (
            not in_hole and any(c.char_start <= place < c.own_start for c in chunks)
        )
        place += len(piece.text)
    assert begun == {
        n: c.own_start for n, c in enumerate(chunks, start=1) if start <= c.own_start < end
    }

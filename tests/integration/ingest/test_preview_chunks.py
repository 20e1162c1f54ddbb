"""A preview shows what an ingest would make, and stores nothing."""

from __future__ import annotations

from typing import Any

import pytest

from rag import models
from rag.core.access import Scope
from rag.core.documents import ChunkRule
from rag.core.errors import InvalidInputError, NotFoundError
from rag.services.chunks.add import add_chunk, delete_chunks
from rag.services.chunks.edit import edit_chunk
from rag.services.ingest import preview as service
from rag.services.ingest.preview import preview_chunks
from tests.factories import FileFactory, StoreFactory, UserFactory
from tests.integration.chunk_desk import OPERATOR, watch_words
from tests.integration.index_desk import ask, live, put, run_job

pytestmark = pytest.mark.django_db
TEXT = "# Manual\n\n" + "\n\n".join(
    f"## Part {n}\n\nThe pump number {n} is serviced yearly by team {n * 3}. 水泵{n}号每年检修一次，由第{n}组负责。\n\n"
    f"| Name | Price |\n|---|---|\n| pump {n} | {n * 100} |\n| valve {n} | {n * 90} |"
    for n in range(25)
)


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch) -> models.File:
    store = StoreFactory(owner=UserFactory(), max_tokens_per_chunk=80, max_overlap_tokens=10)
    watch_words(store, monkeypatch)
    done = run_job(put(store, TEXT, name="manual.md"))
    assert done is not None
    assert done.status == "completed"
    return done


def facts(chunk: Any) -> tuple[Any, ...]:
    return (
        chunk.char_start,
        chunk.own_start,
        chunk.char_end,
        chunk.text,
        chunk.token_count,
        tuple(chunk.heading_path),
        tuple(chunk.block_kinds),
        chunk.context,
        chunk.page_first,
    )


@pytest.mark.parametrize(("size", "overlap"), [(80, 10), (50, 0), (300, 100), (60, 40)])
def test_it_shows_the_very_chunks_that_an_ingest_would_make(
    file: Any, size: int, overlap: int
) -> None:
    shown = preview_chunks(scope=OPERATOR, file_id=file.pk, rule=ChunkRule(size, overlap))
    models.Store.objects.filter(pk=file.store_id).update(
        max_tokens_per_chunk=size, max_overlap_tokens=overlap
    )
    n_before = len(live(file))
    assert run_job(models.File.objects.get(pk=file.pk)) is not None
    made = live(file)
    assert [facts(chunk) for chunk in shown.chunks] == [facts(chunk) for chunk in made]
    assert (shown.n_chunks, shown.n_total, shown.n_today) == (len(made), len(made), n_before)
    assert shown.mean_tokens == pytest.approx(sum(c.token_count for c in made) / len(made))
    assert shown.is_whole


def test_what_people_edited_is_shown_as_kept(file: Any) -> None:
    chunks = live(file)
    edit_chunk(scope=OPERATOR, chunk_id=chunks[3].pk, text="new", by=None, expected_revision=1)
    add_chunk(scope=OPERATOR, file_id=file.pk, text="added", by=None, after=chunks[5].pk)
    delete_chunks(scope=OPERATOR, chunk_ids=[chunks[7].pk], by=None)
    shown = preview_chunks(scope=OPERATOR, file_id=file.pk, rule=ChunkRule(50, 0))
    assert list(shown.kept) == [(chunks[3].own_start, chunks[3].char_end)]
    for low, high in (*shown.kept, (chunks[7].own_start, chunks[7].char_end)):
        assert all(c.char_end <= low or c.char_start >= high for c in shown.chunks)
    assert shown.n_today == len(chunks) - 1
    assert shown.n_chunks == len(shown.chunks) + 1


def test_nothing_is_stored(file: Any) -> None:
    before = [
        ask(f"SELECT count(*) FROM {table}")
        for table in ("rag_chunk", "rag_chunk_draft", "rag_term_delta")
    ]
    preview_chunks(scope=OPERATOR, file_id=file.pk, rule=ChunkRule(50, 0))
    assert before == [
        ask(f"SELECT count(*) FROM {table}")
        for table in ("rag_chunk", "rag_chunk_draft", "rag_term_delta")
    ]
    assert models.Store.objects.get(pk=file.store_id).max_tokens_per_chunk == 80


def test_of_a_long_file_the_beginning_is_shown_and_the_rest_estimated(
    file: Any, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    whole = preview_chunks(scope=OPERATOR, file_id=file.pk, rule=ChunkRule(50, 0))
    monkeypatch.setattr(service, "MAX_CHARS", 1000)
    with django_assert_max_num_queries(6):
        part = preview_chunks(scope=OPERATOR, file_id=file.pk, rule=ChunkRule(50, 0))
    assert (len(part.text), part.is_whole, part.length) == (1000, False, whole.length)
    assert [c.text for c in part.chunks[:-1]] == [
        c.text for c in whole.chunks[: len(part.chunks) - 1]
    ]
    assert part.n_total == pytest.approx(whole.n_total, rel=0.2)
    assert part.n_today == sum(c.own_start < 1000 for c in live(file))


def test_only_readers_see_it_and_only_what_was_read(file: Any) -> None:
    for scope in (Scope.anonymous(), Scope(user_id=None)):
        with pytest.raises(NotFoundError):
            preview_chunks(scope=scope, file_id=file.pk, rule=ChunkRule())
    empty = FileFactory(store=file.store)
    with pytest.raises(InvalidInputError, match="has no text yet"):
        preview_chunks(scope=OPERATOR, file_id=empty.pk, rule=ChunkRule())

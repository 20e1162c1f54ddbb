"""Chunks that people make and delete: found or gone at commit, in their place, counted."""

from __future__ import annotations

from typing import Any

import pytest

from rag import models
from rag.core.access import Scope
from rag.core.errors import ForbiddenError, InvalidInputError, LimitError, NotFoundError
from rag.core.hits import Hit
from rag.services.access.api_keys import scope_of
from rag.services.answers.citations import pin_hits
from rag.services.chunks.add import add_chunk, delete_chunks
from rag.services.chunks.edit import edit_chunk
from rag.stages.prompting.context import Passage
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish
from tests.index_hits import index_hits
from tests.integration.chunk_desk import OPERATOR, ask, check_index, found, nearest, watch_words
from tests.unit.passages import verify_citations

pytestmark = pytest.mark.django_db
TEXTS = ("the pump is serviced yearly", "水泵的保修期为两年", "the valve closes by itself")


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch) -> Any:
    file = FileFactory(store=StoreFactory(owner=UserFactory()))
    watch_words(file.store, monkeypatch)
    return file


def add(
    file: models.File, text: str, after: models.Chunk | None = None, **values: Any
) -> models.Chunk:
    given = {"scope": OPERATOR, "by": None, "after": after and after.pk, **values}
    return add_chunk(file_id=file.pk, text=text, **given)


def texts(file: models.File) -> list[str]:
    return list(models.Chunk.objects.live().filter(file=file).values_list("text", flat=True))


def test_an_added_chunk_is_found_at_its_place(file: Any) -> None:
    second = publish(file, *TEXTS)[1]
    models.Chunk.objects.filter(pk=second.pk).update(heading_path=["Warranty"])
    made = add(file, "维修热线：400-quasar", second, by=file.store.owner)
    assert texts(file) == [TEXTS[0], TEXTS[1], "维修热线：400-quasar", TEXTS[2]]
    assert (made.origin, made.revision, made.edited_by) == ("added", 1, file.store.owner)
    assert (made.char_start, made.own_start, made.char_end) == (second.char_end,) * 3
    assert (made.page_first, made.page_last, made.heading_path) == (2, 2, ["Warranty"])
    assert found(file.store, "quasar") == [made.pk]
    assert nearest(file.store, "维 修 热 线") == made.pk
    check_index(file.store)
    file.refresh_from_db()
    assert file.n_chunks == 4


def test_chunks_are_added_before_all_others_and_behind_each_other(file: Any) -> None:
    publish(file, *TEXTS)
    top = add(file, "summary of the file")
    below = add(file, "more of the summary", top)
    assert texts(file) == ["summary of the file", "more of the summary", *TEXTS]
    assert (top.page_first, below.page_first) == (1, 1)
    first = models.Chunk.FIRST_ADDED
    assert (top.ordinal, below.ordinal) == (first, first + 1)
    assert (top.position, str(below)) == ("+1", f"{file.name} #+2: more of the summary")
    check_index(file.store)


def test_a_chunk_that_repeats_the_end_of_the_one_before_stays_behind(file: Any) -> None:
    first, second, _ = publish(file, *TEXTS)
    models.Chunk.objects.filter(pk=second.pk).update(char_start=first.char_end - 5)
    add(file, "in between", first)
    assert texts(file)[:3] == [TEXTS[0], "in between", TEXTS[1]]


def test_a_file_without_text_can_be_told_in_words(file: Any) -> None:
    made = add(file, "A scan of the contract with Müller, signed 2024.")
    assert (made.char_start, made.page_first, made.heading_path) == (0, None, [])
    assert found(file.store, "contract") == [made.pk]
    check_index(file.store)


def test_what_it_says_can_be_cited_and_its_place_is_told(file: Any) -> None:
    second = publish(file, *TEXTS)[1]
    made = add(file, "The hotline is open day and night.", second)
    hit = index_hits(query="hotline", scope=OPERATOR, stores=[file.store]).hits[0]
    assert (hit.chunk_id, hit.revision, hit.file_name) == (made.pk, 1, file.name)
    answer = 'It is open.[doc_01: "The hotline is open day and night."]'
    _, citations = verify_citations(answer, [Passage("doc_01", hit, hit.text)])
    for one in citations:
        assert (one.char_start, one.char_end) == (second.char_end, second.char_end)
    assert pin_hits(hits=[hit], scope=OPERATOR)[0].text == made.text


def test_only_editors_add_and_only_behind_the_files_own_chunks(file: Any) -> None:
    chunk, group = publish(file, *TEXTS)[0], GroupFactory()
    foreign = publish(FileFactory(store=file.store), "other")[0]
    file.store.reader_groups.add(group)
    with pytest.raises(ForbiddenError):
        add(file, "x", scope=scope_of(UserFactory(groups=[group])))
    with pytest.raises(NotFoundError):
        add(file, "x", scope=Scope.anonymous())
    with pytest.raises(InvalidInputError, match=f"no chunk {foreign.pk}"):
        add(file, "x", foreign)
    with pytest.raises(InvalidInputError, match="needs a text"):
        add(file, " ", chunk)
    with pytest.raises(LimitError):
        add(file, "word " * 501, chunk)
    assert texts(file) == list(TEXTS)
    check_index(file.store)


def test_a_restricted_file_s_added_chunk_is_restricted(file: Any) -> None:
    group = GroupFactory()
    publish(file, *TEXTS)
    file.restricted_to.add(group)
    made = add(file, "secret quasar")
    assert ask("SELECT restricted FROM rag_chunk_lex WHERE chunk_id = %s", made.pk) == [
        ([group.pk],)
    ]


def test_an_added_chunk_is_edited_like_others_and_stays_an_added_one(file: Any) -> None:
    made = add(file, "first")
    edited = edit_chunk(
        scope=OPERATOR, chunk_id=made.pk, text="second", by=None, expected_revision=1
    )
    assert edited.origin == "added"
    back = edit_chunk(scope=OPERATOR, chunk_id=made.pk, text="first", by=None, expected_revision=2)
    assert (back.origin, back.revision) == ("added", 3)


def test_deleted_chunks_leave_nothing(file: Any, django_capture_on_commit_callbacks: Any) -> None:
    pump, warranty, _ = publish(file, *TEXTS)
    edit_chunk(scope=OPERATOR, chunk_id=pump.pk, text="secret", by=None, expected_revision=1)
    with django_capture_on_commit_callbacks(execute=True):
        ids = [pump.pk, warranty.pk, 999_999_999]
        assert delete_chunks(scope=OPERATOR, chunk_ids=ids, by=file.store.owner) == 2
    assert texts(file) == [TEXTS[2]]
    assert not models.ChunkRevision.objects.exists()
    assert found(file.store, "secret") == found(file.store, "保修期") == []
    hits = [Hit(text="x", rank=1, chunk_id=pump.pk, revision=1)]
    assert pin_hits(hits=hits, scope=OPERATOR)[0].text == ""
    check_index(file.store)
    file.refresh_from_db()
    assert file.n_chunks == 1
    spans = models.DroppedSpan.objects.filter(file=file)
    assert [(one.char_start, one.char_end, one.dropped_by) for one in spans] == [
        (pump.own_start, pump.char_end, file.store.owner),
        (warranty.own_start, warranty.char_end, file.store.owner),
    ]


def test_an_added_or_replaced_chunk_leaves_no_gap(file: Any) -> None:
    old = publish(file, "old words")[0]
    publish(file, *TEXTS)
    made = add(file, "added")
    delete_chunks(scope=OPERATOR, chunk_ids=[made.pk, old.pk], by=None)
    assert not models.DroppedSpan.objects.exists()
    assert not models.Chunk.objects.filter(pk__in=[made.pk, old.pk]).exists()
    file.refresh_from_db()
    assert file.n_chunks == 3


def test_only_editable_chunks_are_deleted(file: Any) -> None:
    mine = publish(file, *TEXTS)
    public = publish(FileFactory(store=StoreFactory(is_public=True)), "public")
    ids = [mine[0].pk, public[0].pk]
    assert delete_chunks(scope=scope_of(file.store.owner), chunk_ids=ids, by=None) == 1
    assert models.Chunk.objects.filter(pk=public[0].pk).exists()


def test_a_deletion_takes_as_many_statements_for_many_as_for_few(
    file: Any, django_assert_max_num_queries: Any
) -> None:
    chunks = publish(file, *(f"text {n}" for n in range(60)))
    # Four of them ask what rests on the chunks: answers, runs, memories, kept answers.
    with django_assert_max_num_queries(19):
        delete_chunks(scope=OPERATOR, chunk_ids=[chunk.pk for chunk in chunks[:50]], by=None)


def test_a_file_with_written_chunks_is_deleted_whole(
    file: Any, django_capture_on_commit_callbacks: Any
) -> None:
    from django.db import connection

    from rag.services.files.delete import delete_files
    from rag.services.stores.lifecycle import delete_store

    for other in (file, FileFactory(store=file.store)):
        chunk, second, third = publish(other, *TEXTS)
        add(other, "added", chunk)
        edit_chunk(scope=OPERATOR, chunk_id=chunk.pk, text="edited", by=None, expected_revision=1)
        delete_chunks(scope=OPERATOR, chunk_ids=[second.pk], by=None)
        models.ChunkConflict.objects.create(file=other, chunk=third, char_start=0, file_revision=1)
    with django_capture_on_commit_callbacks(execute=True):
        delete_files(scope=OPERATOR, file_ids=[file.pk])
    connection.check_constraints()
    check_index(file.store)
    delete_store(store=file.store)
    connection.check_constraints()
    for model in (models.Chunk, models.ChunkConflict, models.DroppedSpan, models.ChunkRevision):
        assert not model.objects.exists()

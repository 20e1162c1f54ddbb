"""What found no place in a file's new text is decided by a person, and nothing gets lost by it."""

from __future__ import annotations

from typing import Any

import pytest

from rag import models
from rag.core.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from rag.core.hits import Hit
from rag.services.access.api_keys import scope_of
from rag.services.answers.citations import pin_hits
from rag.services.chunks.add import add_chunk
from rag.services.chunks.conflicts import (
    discard_conflict,
    keep_conflict,
    move_conflict,
    neighbour_chunk,
)
from rag.services.chunks.edit import chunk_revisions, edit_chunk, restore_revision
from rag.stages.chunking.diff_texts import diff_texts
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish
from tests.integration.chunk_desk import OPERATOR, check_index, found, watch_words

pytestmark = pytest.mark.django_db
TEXTS = ("the pump is serviced yearly", "水泵的保修期为两年", "the valve closes by itself")


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch) -> Any:
    file = FileFactory(store=StoreFactory(owner=UserFactory()))
    watch_words(file.store, monkeypatch)
    return file


@pytest.fixture
def conflict(file: Any) -> models.ChunkConflict:
    """An edited chunk that was retired when its file changed, as a new reading leaves it."""
    chunk = publish(file, "old words", "more")[0]
    edit_chunk(
        scope=OPERATOR, chunk_id=chunk.pk, text="the quasar pump", by=None, expected_revision=1
    )
    publish(file, *TEXTS)
    chunk.refresh_from_db()
    assert (chunk.is_live, chunk.text) == (False, "the quasar pump")
    at = len(TEXTS[0]) + 4
    return models.ChunkConflict.objects.create(
        file=file, chunk=chunk, char_start=at, file_revision=2
    )


def texts(file: models.File) -> list[str]:
    return list(models.Chunk.objects.live().filter(file=file).values_list("text", flat=True))


def test_a_text_is_kept_as_a_chunk_of_its_own(file: Any, conflict: Any) -> None:
    assert neighbour_chunk(conflict=conflict).text == TEXTS[1]  # type: ignore[union-attr]
    made = keep_conflict(scope=OPERATOR, conflict_id=conflict.pk, by=file.store.owner)
    assert texts(file) == [TEXTS[0], TEXTS[1], "the quasar pump", TEXTS[2]]
    assert (made.origin, made.page_first, made.edited_by) == ("added", 2, file.store.owner)
    assert found(file.store, "quasar") == [made.pk]
    assert not models.ChunkConflict.objects.exists()
    check_index(file.store)


def test_citations_of_the_retired_text_open_all_the_same(file: Any, conflict: Any) -> None:
    hits = [Hit(text="", rank=1, chunk_id=conflict.chunk_id, revision=n) for n in (1, 2)]
    keep_conflict(scope=OPERATOR, conflict_id=conflict.pk, by=None)
    assert [hit.text for hit in pin_hits(hits=hits, scope=OPERATOR)] == [
        "old words",
        "the quasar pump",
    ]


def test_a_text_is_put_in_place_of_another_chunk(file: Any, conflict: Any) -> None:
    target = models.Chunk.objects.live().get(text=TEXTS[1])
    values = {"scope": OPERATOR, "conflict_id": conflict.pk, "by": None}
    with pytest.raises(ConflictError):
        move_conflict(chunk_id=target.pk, expected_revision=7, **values)
    foreign = publish(FileFactory(store=file.store), "other")[0]
    for wrong in (foreign.pk, conflict.chunk_id, 999_999_999):
        with pytest.raises(NotFoundError):
            move_conflict(chunk_id=wrong, expected_revision=1, **values)
    assert models.ChunkConflict.objects.count() == 1
    edited = move_conflict(chunk_id=target.pk, expected_revision=1, **values)
    assert (edited.pk, edited.text, edited.revision) == (target.pk, "the quasar pump", 2)
    assert texts(file) == [TEXTS[0], "the quasar pump", TEXTS[2]]
    assert not models.ChunkConflict.objects.exists()
    check_index(file.store)


def test_a_text_is_dropped(file: Any, conflict: Any) -> None:
    discard_conflict(scope=OPERATOR, conflict_id=conflict.pk, by=None)
    assert texts(file) == list(TEXTS)
    assert not models.ChunkConflict.objects.exists()
    assert models.Chunk.objects.filter(pk=conflict.chunk_id).exists()
    with pytest.raises(NotFoundError):
        discard_conflict(scope=OPERATOR, conflict_id=conflict.pk, by=None)


def test_an_added_chunk_stays_or_goes(file: Any, django_capture_on_commit_callbacks: Any) -> None:
    publish(file, *TEXTS)
    for deed, is_there in ((keep_conflict, True), (discard_conflict, False)):
        made = add_chunk(scope=OPERATOR, file_id=file.pk, text="call 555", by=None)
        one = models.ChunkConflict.objects.create(
            file=file, chunk=made, char_start=0, file_revision=1
        )
        with django_capture_on_commit_callbacks(execute=True):
            deed(scope=OPERATOR, conflict_id=one.pk, by=None)  # type: ignore[operator]
        assert models.Chunk.objects.filter(pk=made.pk, is_live=True).exists() is is_there
        assert not models.ChunkConflict.objects.exists()
        check_index(file.store)


def test_what_was_switched_off_is_only_dropped(file: Any, conflict: Any) -> None:
    models.Chunk.objects.filter(pk=conflict.chunk_id).update(enabled=False)
    with pytest.raises(InvalidInputError, match="needs no place"):
        keep_conflict(scope=OPERATOR, conflict_id=conflict.pk, by=None)
    discard_conflict(scope=OPERATOR, conflict_id=conflict.pk, by=None)


def test_only_editors_decide(file: Any, conflict: Any) -> None:
    group = GroupFactory()
    file.store.reader_groups.add(group)
    for deed in (keep_conflict, discard_conflict):
        with pytest.raises(ForbiddenError):
            deed(scope=scope_of(UserFactory(groups=[group])), conflict_id=conflict.pk, by=None)  # type: ignore[operator]
        with pytest.raises(NotFoundError):
            deed(scope=scope_of(UserFactory()), conflict_id=conflict.pk, by=None)  # type: ignore[operator]
    assert models.ChunkConflict.objects.count() == 1


def test_two_who_decide_at_once_make_one_chunk(
    file: Any, conflict: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = watch_words(file.store, monkeypatch)

    def meanwhile(n: int) -> None:
        embedder.before = lambda n: None
        keep_conflict(scope=OPERATOR, conflict_id=conflict.pk, by=None)

    embedder.before = meanwhile
    with pytest.raises(ConflictError, match="decided this meanwhile"):
        keep_conflict(scope=OPERATOR, conflict_id=conflict.pk, by=None)
    assert texts(file).count("the quasar pump") == 1
    check_index(file.store)


def test_revisions_are_told_newest_first_with_what_changed(file: Any) -> None:
    owner = file.store.owner
    chunk = publish(file, "the pump runs", "x")[0]
    for revision, text in enumerate(("the pump stopped", "a pump stopped"), start=1):
        edit_chunk(
            scope=OPERATOR, chunk_id=chunk.pk, text=text, by=owner, expected_revision=revision
        )
    told = chunk_revisions(scope=scope_of(owner), chunk_id=chunk.pk)
    assert [(one.revision, one.text) for one in told] == [
        (3, "a pump stopped"),
        (2, "the pump stopped"),
        (1, "the pump runs"),
    ]
    assert (told[0].replaced_at, told[1].replaced_by) == (None, owner.username)
    runs = diff_texts(told[2].text, told[0].text)
    assert [(run.kind, run.text) for run in runs if run.kind != "same"] == [
        ("gone", "the"),
        ("new", "a"),
        ("gone", "runs"),
        ("new", "stopped"),
    ]
    with pytest.raises(NotFoundError):
        chunk_revisions(scope=scope_of(UserFactory()), chunk_id=chunk.pk)
    with pytest.raises(NotFoundError, match="no revision 9"):
        restore_revision(
            scope=OPERATOR, chunk_id=chunk.pk, revision=9, by=owner, expected_revision=3
        )

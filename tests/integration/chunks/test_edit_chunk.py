"""A chunk's text is changed: found at commit, the old one never again, citations of it open."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction

from rag import models
from rag.core.access import Scope
from rag.core.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    LimitError,
    NotFoundError,
)
from rag.core.hits import Hit
from rag.services.access.api_keys import scope_of
from rag.services.answers.citations import pin_hits
from rag.services.chunks.edit import edit_chunk, restore_revision
from rag.services.ingest import chunk_text
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish
from tests.index_hits import index_hits
from tests.integration.chunk_desk import (
    OPERATOR,
    ask,
    check_index,
    found,
    nearest,
    watch_words,
)
from tests.integration.index_desk import WatchedEmbedder

pytestmark = pytest.mark.django_db
TEXTS = ("the pump is serviced yearly", "水泵的保修期为两年", "the valve closes by itself")


@pytest.fixture
def file() -> Any:
    return FileFactory(store=StoreFactory(owner=UserFactory()))


@pytest.fixture
def embedder(file: Any, monkeypatch: pytest.MonkeyPatch) -> WatchedEmbedder:
    return watch_words(file.store, monkeypatch)


def edit(chunk: models.Chunk, text: str, **values: Any) -> models.Chunk:
    given = {"scope": OPERATOR, "by": None, "expected_revision": chunk.revision, **values}
    return edit_chunk(chunk_id=chunk.pk, text=text, **given)


def test_the_new_text_is_found_and_the_old_one_is_not(file: Any, embedder: Any) -> None:
    pump, warranty, _ = publish(file, *TEXTS)
    edited = edit(warranty, "水泵的保修期为三年，含quasarium部件", by=file.store.owner)
    assert (edited.text, edited.revision, edited.origin) == (
        "水泵的保修期为三年，含quasarium部件",
        2,
        "edited",
    )
    assert edited.edited_by == file.store.owner
    # A word that the store never had, a Chinese one, and the vector.
    assert found(file.store, "quasarium") == [warranty.pk]
    assert found(file.store, "三年") == [warranty.pk]
    assert nearest(file.store, "三 年 含") == warranty.pk
    assert found(file.store, "两年") == []
    check_index(file.store)
    assert models.Chunk.objects.get(pk=pump.pk).revision == 1


def test_it_is_found_within_the_very_transaction(file: Any, embedder: Any) -> None:
    chunk = publish(file, *TEXTS)[0]
    with transaction.atomic():
        edit(chunk, "a lonely quasar")
        assert found(file.store, "quasar") == [chunk.pk]
        assert found(file.store, "serviced") == []


def test_only_what_is_new_is_embedded_and_once(file: Any, embedder: WatchedEmbedder) -> None:
    chunk = publish(file, *TEXTS)[0]
    edit(chunk, "another text")
    assert embedder.texts == ["another text"]
    chunk.refresh_from_db()
    edit(chunk, "  another text\r\n")
    assert embedder.texts == ["another text"]
    assert models.ChunkRevision.objects.count() == 1


def test_the_old_text_is_kept_with_its_place(file: Any, embedder: Any) -> None:
    chunk = publish(file, *TEXTS)[1]
    edit(chunk, "new", by=file.store.owner)
    kept = models.ChunkRevision.objects.get(chunk=chunk)
    assert (kept.revision, kept.text, kept.replaced_by) == (1, TEXTS[1], file.store.owner)
    assert (kept.char_start, kept.char_end, kept.page_first) == (
        chunk.char_start,
        chunk.char_end,
        chunk.page_first,
    )
    assert kept.file_revision == file.revision


def test_citations_of_the_old_text_still_open(file: Any, embedder: Any) -> None:
    chunk = publish(file, *TEXTS)[0]
    result = index_hits(query="pump", scope=OPERATOR, stores=[file.store])
    before = next(hit for hit in result.hits if hit.chunk_id == chunk.pk)
    edit(chunk, "the pump is never serviced")
    opened = pin_hits(hits=[before], scope=OPERATOR)[0]
    assert (opened.text, opened.revision) == (TEXTS[0], 1)
    now = pin_hits(hits=[Hit(text="", rank=1, chunk_id=chunk.pk)], scope=OPERATOR)[0]
    assert (now.text, now.revision) == ("the pump is never serviced", 2)


def test_two_editors_do_not_overwrite_each_other(file: Any, embedder: Any) -> None:
    chunk = publish(file, *TEXTS)[0]
    edit(chunk, "first come")
    with pytest.raises(ConflictError, match="it is at revision 2, you saw 1"):
        edit(chunk, "second come", expected_revision=1)
    chunk.refresh_from_db()
    assert chunk.text == "first come"
    check_index(file.store)


def test_an_edit_that_comes_while_the_model_works_wins(
    file: Any, embedder: WatchedEmbedder
) -> None:
    chunk = publish(file, *TEXTS)[0]

    def meanwhile(n: int) -> None:
        embedder.before = lambda n: None
        edit(chunk, "came in between", expected_revision=1)

    embedder.before = meanwhile
    with pytest.raises(ConflictError):
        edit(chunk, "came too late")
    assert found(file.store, "between") == [chunk.pk]
    assert found(file.store, "late") == []
    assert models.ChunkRevision.objects.count() == 1
    check_index(file.store)


def test_a_chunk_that_its_file_no_longer_has_is_not_edited(file: Any, embedder: Any) -> None:
    chunk = publish(file, *TEXTS)[0]
    publish(file, "other words")
    with pytest.raises(ConflictError, match="no longer has this chunk"):
        edit(chunk, "new")
    assert ask("SELECT count(*) FROM rag_chunk_lex WHERE chunk_id = %s", chunk.pk) == [(0,)]


def test_a_store_that_changed_its_model_meanwhile(
    file: Any, embedder: WatchedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.factories import SpaceFactory

    chunk = publish(file, *TEXTS)[0]
    other = SpaceFactory(version="2")
    embedder.before = lambda n: models.Store.objects.filter(pk=file.store_id).update(space=other)
    with pytest.raises(ConflictError, match="moved to another model"):
        edit(chunk, "new text")
    chunk.refresh_from_db()
    assert (chunk.text, chunk.revision) == (TEXTS[0], 1)
    assert not models.ChunkRevision.objects.exists()


def test_only_editors_edit(file: Any, embedder: Any) -> None:
    chunk, group = publish(file, *TEXTS)[0], GroupFactory()
    file.store.reader_groups.add(group)
    with pytest.raises(ForbiddenError, match="You may read"):
        edit(chunk, "x", scope=scope_of(UserFactory(groups=[group])))
    for scope in (Scope.anonymous(), scope_of(UserFactory())):
        with pytest.raises(NotFoundError):
            edit(chunk, "x", scope=scope)
    with pytest.raises(NotFoundError):
        edit_chunk(scope=OPERATOR, chunk_id=999_999_999, text="x", by=None, expected_revision=1)
    assert edit(chunk, "mine", scope=scope_of(file.store.owner)).text == "mine"


@pytest.mark.parametrize("text", ["", " \n\t ", "\0\ud800\x07"])
def test_a_blank_text_is_refused(file: Any, embedder: Any, text: str) -> None:
    with pytest.raises(InvalidInputError, match="needs a text"):
        edit(publish(file, *TEXTS)[0], text)


def test_a_long_text_is_refused_with_its_size(file: Any, embedder: WatchedEmbedder) -> None:
    chunk = publish(file, *TEXTS)[0]
    with pytest.raises(LimitError, match="501 tokens; a chunk may have 500"):
        edit(chunk, "word " * 501)
    embedder.max_tokens = 100
    with pytest.raises(LimitError, match="101 tokens; a chunk may have 100"):
        edit(chunk, "泵" * 101)
    with pytest.raises(LimitError, match="20000 characters"):
        edit(chunk, "x" * (chunk_text.MAX_CHARS + 1))
    embedder.max_tokens = 512
    assert edit(chunk, "word " * 500).token_count == 500


def test_what_a_chunk_carries_counts_and_is_searched_with_it(
    file: Any, embedder: WatchedEmbedder
) -> None:
    chunk = publish(file, *TEXTS)[0]
    models.Chunk.objects.filter(pk=chunk.pk).update(context="Name | Price")
    edited = edit(chunk, "Pump | 400")
    assert embedder.texts == ["Name | Price\nPump | 400"]
    assert edited.token_count == 2
    assert found(file.store, "price") == [chunk.pk]
    with pytest.raises(LimitError, match="502 tokens"):
        edit(edited, "word " * 500)


def test_signs_that_cannot_be_stored_are_dropped_and_markup_is_text(
    file: Any, embedder: Any
) -> None:
    chunk = publish(file, *TEXTS)[0]
    edited = edit(chunk, "\ufeff<script>alert(1)</script>\0 e\u0301\r\nnext")
    edited.refresh_from_db()
    assert edited.text == "<script>alert(1)</script> é\nnext"


def test_a_switched_off_chunk_stays_off(file: Any, embedder: Any) -> None:
    chunk = publish(file, *TEXTS)[0]
    models.Chunk.objects.filter(pk=chunk.pk).update(enabled=False)
    edit(chunk, "a lonely quasar")
    assert found(file.store, "quasar") == []
    check_index(file.store)


def test_a_restriction_holds_for_the_new_text(file: Any, embedder: Any) -> None:
    chunk, group = publish(file, *TEXTS)[0], GroupFactory()
    file.restricted_to.add(group)
    edit(chunk, "a lonely quasar")
    for table in ("rag_chunk_vec", "rag_chunk_lex"):
        assert ask(f"SELECT restricted FROM {table} WHERE chunk_id = %s", chunk.pk) == [
            ([group.pk],)
        ]


def test_a_revision_is_brought_back_as_a_new_one(file: Any, embedder: Any) -> None:
    chunk = publish(file, *TEXTS)[0]
    digest = "0" * 64
    edit(chunk, "second")
    chunk.refresh_from_db()
    edit(chunk, "third")
    back = restore_revision(
        scope=OPERATOR, chunk_id=chunk.pk, revision=1, by=file.store.owner, expected_revision=3
    )
    assert (back.text, back.revision) == (TEXTS[0], 4)
    revisions = models.ChunkRevision.objects.filter(chunk=chunk).order_by("revision")
    assert [(one.revision, one.text) for one in revisions] == [
        (1, TEXTS[0]),
        (2, "second"),
        (3, "third"),
    ]
    assert found(file.store, "serviced") == [chunk.pk]
    assert found(file.store, "third") == []
    check_index(file.store)
    with pytest.raises(NotFoundError, match="no revision 9"):
        restore_revision(
            scope=OPERATOR, chunk_id=chunk.pk, revision=9, by=None, expected_revision=4
        )
    assert digest != back.sha256


def test_an_edit_takes_few_statements(
    file: Any, embedder: Any, django_assert_max_num_queries: Any
) -> None:
    chunk = publish(file, *TEXTS)[0]
    # Two of them ask whether the store moves to another model.
    with django_assert_max_num_queries(38) as captured:
        edit(chunk, "new text", scope=scope_of(file.store.owner))
    assert not any("canonical_text" in entry["sql"] for entry in captured.captured_queries)


@pytest.mark.django_db(transaction=True)
def test_no_connection_is_held_while_the_model_works(embedder: WatchedEmbedder, file: Any) -> None:
    chunk = publish(file, *TEXTS)[0]
    seen: list[bool] = []
    embedder.before = lambda n: seen.append(connection.connection is None)
    edit(chunk, "new text")
    assert seen == [True]

"""Files are read anew, and what people did to their chunks is still there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rag import models
from rag.core.documents import ParsedDocument
from rag.providers.postgres.write import staging as draft_places
from rag.services.chunks.add import add_chunk, delete_chunks
from rag.services.chunks.edit import edit_chunk, restore_revision
from rag.services.files.edit import set_chunks_enabled
from rag.services.index.lexical_weights import refresh_statistics
from rag.services.ingest import indexing as index_file
from rag.services.ingest import preserve_edits as carry_over
from rag.services.ingest.indexing import activate_revision
from rag.services.ingest.preserve_edits import match_edits
from tests.factories import StoreFactory, UserFactory
from tests.integration.chunk_desk import (
    OPERATOR,
    ask,
    check_index,
    found,
    nearest,
    watch_words,
)
from tests.integration.index_desk import WatchedEmbedder, live, put, run_job

pytestmark = pytest.mark.django_db
LINES = [
    f"Rule {n}: pump {n * 7} runs at level {n * 13} and is checked by team {n * 17} every day, "
    f"but valve {n * 19} only by the night shift of hall {n * 23}, which keeps book {n * 29} of it."
    for n in range(30)
]
TEXT = "\n\n".join(LINES)


@pytest.fixture
def store() -> Any:
    return StoreFactory(owner=UserFactory(), max_tokens_per_chunk=50, max_overlap_tokens=0)


@pytest.fixture
def embedder(store: Any, monkeypatch: pytest.MonkeyPatch) -> WatchedEmbedder:
    return watch_words(store, monkeypatch)


@pytest.fixture
def file(store: Any, embedder: Any) -> models.File:
    return indexed(put(store, TEXT))


def indexed(file: models.File, **flags: Any) -> models.File:
    done = run_job(file, **flags)
    assert done is not None
    assert done.status == "completed", done.error
    return done


def rewritten(file: models.File, text: str) -> models.File:
    """Give the file other bytes, as a new version of it, and index them."""
    with file.content.storage.open(str(file.content.name), "wb") as stream:
        stream.write(text.encode())
    return indexed(file)


def edit(chunk: models.Chunk, text: str) -> models.Chunk:
    return edit_chunk(
        scope=OPERATOR, chunk_id=chunk.pk, text=text, by=None, expected_revision=chunk.revision
    )


def add(file: models.File, text: str, after: models.Chunk) -> models.Chunk:
    return add_chunk(scope=OPERATOR, file_id=file.pk, text=text, by=None, after=after.pk)


def off(chunk: models.Chunk) -> None:
    set_chunks_enabled(scope=OPERATOR, chunk_ids=[chunk.pk], enabled=False)


def delete(chunk: models.Chunk) -> None:
    delete_chunks(scope=OPERATOR, chunk_ids=[chunk.pk], by=None)
    refresh_statistics(store_id=chunk.store_id)


def edit_all(file: models.File) -> None:
    for n, chunk in enumerate(in_order(file)):
        edit(chunk, f"The pump {n} was replaced.")


def off_all(file: models.File) -> None:
    for chunk in in_order(file):
        off(chunk)


def delete_all(file: models.File) -> None:
    for chunk in in_order(file):
        delete(chunk)


def cover_all(file: models.File) -> None:
    """Leave none but chunks that people wrote."""
    add(file, "Call 555 for help.", in_order(file)[0])
    for chunk in in_order(file):
        if chunk.origin != "added":
            delete(chunk)


def in_between(monkeypatch: pytest.MonkeyPatch, deed: Callable[[], Any]) -> None:
    """Do something once between the draft and the swap of the next job."""
    deeds = [deed]

    def publish(**values: Any) -> bool:
        if deeds:
            deeds.pop()()
        return activate_revision(**values)

    monkeypatch.setattr(index_file, "activate_revision", publish)


def in_order(file: models.File) -> list[models.Chunk]:
    return list(models.Chunk.objects.live().filter(file=file))


def checked(file: models.File) -> list[models.Chunk]:
    """Return the live chunks in order, after holding them to what is true of all files."""
    check_index(file.store)
    canonical = models.File.objects.get(pk=file.pk).canonical_text
    chunks = in_order(file)
    covered: set[int] = set()
    for chunk in chunks:
        if chunk.origin == "parsed":
            assert canonical[chunk.char_start : chunk.char_end] == chunk.text
        assert not covered & set(range(chunk.own_start, chunk.char_end))
        covered |= set(range(chunk.own_start, chunk.char_end))
    for span in models.DroppedSpan.objects.filter(file=file):
        covered |= set(range(span.char_start, span.char_end))
    assert not "".join(c for at, c in enumerate(canonical) if at not in covered).strip()
    parsed = [chunk.ordinal for chunk in chunks if chunk.origin != "added"]
    assert parsed == sorted(parsed)
    return chunks


def test_the_same_text_changes_nothing(file: Any, embedder: WatchedEmbedder) -> None:
    chunks = live(file)
    edit(chunks[2], "The quasar pump was replaced.")
    off(chunks[4])
    made = add(file, "Call 555 for help.", chunks[5])
    delete(chunks[7])
    before = [(c.pk, c.text, c.revision, c.enabled, c.origin) for c in checked(file)]
    embedder.forget()
    indexed(file)
    after = [(c.pk, c.text, c.revision, c.enabled, c.origin) for c in checked(file)]
    assert after == before
    assert embedder.texts == []
    assert (chunks[2].pk, "The quasar pump was replaced.", 2, True, "edited") in after
    assert found(file.store, "quasar") == [chunks[2].pk]
    assert made.pk in [c.pk for c in in_order(file)]
    assert not models.ChunkConflict.objects.exists()


@pytest.mark.parametrize("touched", [edit_all, off_all, delete_all, cover_all])
def test_a_file_whose_every_chunk_was_touched_stays_as_it_is(
    file: Any, touched: Callable[[models.File], None]
) -> None:
    touched(file)
    before = [(c.pk, c.text, c.revision, c.enabled, c.origin) for c in checked(file)]
    for fresh_vectors in (False, True):
        indexed(file, fresh_vectors=fresh_vectors)
        after = [(c.pk, c.text, c.revision, c.enabled, c.origin) for c in checked(file)]
        assert after == before
        file.refresh_from_db()
        assert (file.status, file.n_chunks) == ("completed", len(before))


def test_an_edit_moves_no_other_chunk(store: Any, embedder: WatchedEmbedder) -> None:
    models.Store.objects.filter(pk=store.pk).update(max_tokens_per_chunk=60, max_overlap_tokens=20)
    store.refresh_from_db()
    text = " ".join(f"Pump {n} runs at level {n * 13}." for n in range(150))
    file = indexed(put(store, text))
    before = live(file)
    assert len(before) > 10
    assert before[4].own_start > before[4].char_start
    edit(before[3], "The quasar pump was replaced.")
    embedder.forget()
    indexed(file)
    after = checked(file)
    # Only the next one, which repeated the end of the text that was, is another.
    assert [c.pk for c in before if c.pk not in {c.pk for c in after}] == [before[4].pk]
    assert after[4].text == before[4].text[before[4].own_start - before[4].char_start :]
    assert embedder.texts == [after[4].text]
    embedder.forget()
    indexed(file)
    assert [c.pk for c in checked(file)] == [c.pk for c in after]
    assert embedder.texts == []


def test_an_edit_survives_other_chunk_sizes(file: Any, store: Any) -> None:
    chunks = live(file)
    edited = edit(chunks[3], "The quasar pump was replaced.")
    off(chunks[6])
    delete(chunks[8])
    gone = chunks[8].text
    for size, overlap in ((120, 20), (75, 0), (50, 22)):
        models.Store.objects.filter(pk=store.pk).update(
            max_tokens_per_chunk=size, max_overlap_tokens=overlap
        )
        indexed(models.File.objects.get(pk=file.pk))
        texts = {c.pk: c for c in checked(file)}
        assert texts[edited.pk].text == "The quasar pump was replaced."
        assert (texts[edited.pk].revision, texts[edited.pk].origin) == (2, "edited")
        assert texts[chunks[6].pk].enabled is False
        assert sum(not c.enabled for c in texts.values()) == 1
        # What was corrected, switched off or deleted comes back in no other chunk.
        for old in (chunks[3].text, chunks[6].text, gone):
            assert not any(old[:40] in c.text for c in texts.values() if c.enabled)
    assert not models.ChunkConflict.objects.exists()


def test_the_file_s_new_version_keeps_what_is_still_in_it(file: Any) -> None:
    chunks = live(file)
    edited = edit(chunks[3], "The quasar pump was replaced.")
    off(chunks[6])
    made = add(file, "Call 555 for help.", chunks[10])
    delete(chunks[12])
    new = "A preface of some words.\n\n" + TEXT.replace(LINES[0], "").replace(
        "Rule 29", "Last rule"
    )
    rewritten(file, new)
    after = {c.pk: c for c in checked(file)}
    assert after[edited.pk].text == "The quasar pump was replaced."
    assert after[chunks[6].pk].enabled is False
    canonical = models.File.objects.get(pk=file.pk).canonical_text
    place = after[edited.pk]
    assert canonical[place.char_start : place.char_end] == chunks[3].text
    assert canonical[: after[made.pk].char_start].endswith(chunks[10].text)
    order = [c.pk for c in in_order(file)]
    assert order.index(chunks[10].pk) + 1 == order.index(made.pk)
    assert not any("Rule 12:" in c.text for c in after.values())
    assert not models.ChunkConflict.objects.exists()
    # And once more, from there.
    rewritten(file, "Another preface.\n\n" + new)
    assert {edited.pk, made.pk, chunks[6].pk} <= {c.pk for c in checked(file)}


def test_what_has_no_place_is_listed_and_kept(file: Any) -> None:
    chunks = live(file)
    edited = edit(chunks[3], "The quasar pump was replaced.")
    off(chunks[6])
    made = add(file, "Call 555 for help.", chunks[10])
    delete(chunks[12])
    rewritten(file, "\n\n".join(f"Another text {n} altogether, of other things." for n in range(9)))
    assert {c.origin for c in checked(file)} == {"parsed", "added"}
    conflicts = {one.chunk_id: one for one in models.ChunkConflict.objects.all()}
    assert set(conflicts) == {edited.pk, chunks[6].pk, made.pk}
    edited.refresh_from_db()
    assert (edited.text, edited.is_live) == ("The quasar pump was replaced.", False)
    assert found(file.store, "quasar") == []
    assert found(file.store, "555") == [made.pk]
    assert not models.DroppedSpan.objects.exists()


def test_an_edit_that_the_new_version_has_itself_is_settled(file: Any) -> None:
    chunk = live(file)[3]
    edit(chunk, "The quasar pump was replaced.")
    rewritten(file, TEXT.replace(LINES[3].strip(), "The quasar pump was replaced."))
    checked(file)
    assert not models.ChunkConflict.objects.exists()
    assert len(found(file.store, "quasar")) == 1


def test_a_text_that_was_brought_back_is_the_file_s_again(file: Any) -> None:
    chunk = live(file)[3]
    edit(chunk, "wrong")
    back = restore_revision(
        scope=OPERATOR, chunk_id=chunk.pk, revision=1, by=None, expected_revision=2
    )
    assert back.origin == "parsed"
    indexed(file)
    assert [c.pk for c in checked(file)] == [c.pk for c in live(file)]


def test_fresh_vectors_reach_written_chunks_too(file: Any, embedder: WatchedEmbedder) -> None:
    chunks = live(file)
    edit(chunks[3], "The quasar pump was replaced.")
    made = add(file, "Call 555 for help.", chunks[5])
    ask(
        "UPDATE rag_chunk_vec SET embedding = (SELECT embedding FROM rag_chunk_vec WHERE chunk_id = %s)"
        " WHERE chunk_id = ANY(%s) RETURNING 1",
        chunks[0].pk,
        [chunks[3].pk, made.pk],
    )
    embedder.forget()
    indexed(file, fresh_vectors=True)
    assert {"The quasar pump was replaced.", "Call 555 for help."} <= set(embedder.texts)
    assert chunks[3].text not in embedder.texts
    assert nearest(file.store, "call 555 for help") == made.pk
    checked(file)


def test_an_edit_while_the_file_is_being_read_is_kept(
    file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk = live(file)[3]
    in_between(monkeypatch, lambda: edit(chunk, "The quasar pump was replaced."))
    indexed(file, fresh_vectors=True)
    assert found(file.store, "quasar") == [chunk.pk]
    checked(file)


def test_a_chunk_that_is_switched_on_while_the_file_is_read_is_not_lost(
    file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk = live(file)[3]
    off(chunk)
    in_between(monkeypatch, lambda: models.Chunk.objects.filter(pk=chunk.pk).update(enabled=True))
    indexed(file)
    assert chunk.pk in [c.pk for c in checked(file)]


def test_a_deletion_while_the_file_is_cut_anew_is_kept(
    file: Any, store: Any, monkeypatch: pytest.MonkeyPatch, embedder: WatchedEmbedder
) -> None:
    chunk = live(file)[3]
    models.Store.objects.filter(pk=store.pk).update(max_tokens_per_chunk=120)
    in_between(monkeypatch, lambda: delete(chunk))
    embedder.forget()
    indexed(models.File.objects.get(pk=file.pk))
    assert not any("Rule 3:" in c.text for c in checked(file))
    # The first draft did not fit and was made once more.
    assert sum("Rule 0:" in text for text in embedder.texts) == 2


def test_a_file_whose_chunks_change_again_and_again_says_so(
    file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk = live(file)[3]
    edit(chunk, "The quasar pump was replaced.")
    real = draft_places.staged_spans

    def odd(pk: int) -> list[tuple[int, int, int]]:
        return [
            (n, low, high + 90 if high <= chunk.char_start else high) for n, low, high in real(pk)
        ]

    monkeypatch.setattr(carry_over, "staged_spans", odd)
    failed = run_job(file)
    assert failed is not None
    assert failed.error is not None
    assert failed.error["message"] == "The file's chunks changed while it was indexed."
    assert found(file.store, "quasar") == [chunk.pk]
    checked(file)


def test_a_text_that_stands_twice_keeps_each_its_own_fate(store: Any, embedder: Any) -> None:
    same = (
        "The very same words stand here, once and again, in both parts of this file, word for word."
    )
    text = "\n\n".join([LINES[0], same, LINES[1], same, LINES[2]])
    file = indexed(put(store, text))
    twins = [c for c in live(file) if c.text == same]
    assert len(twins) == 2
    edit(twins[0], "The quasar.")
    rewritten(file, "\n\n".join([LINES[5], LINES[0], same, LINES[1], same, LINES[2]]))
    texts = [c.text for c in checked(file)]
    assert texts.count("The quasar.") == 1
    assert texts.count(same) == 1
    assert texts.index("The quasar.") < texts.index(same)
    rewritten(file, "\n\n".join([LINES[5], LINES[1], same, LINES[2]]))
    texts = [c.text for c in checked(file)]
    assert texts.count(same) + texts.count("The quasar.") == 1


def test_a_file_that_nobody_touched_costs_two_look_ups(
    file: Any, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(2):
        assert match_edits(file=file, document=ParsedDocument("txt", "x", "t")).holes == ()

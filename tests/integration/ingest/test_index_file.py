"""The job of a file on real documents: whole, resumable, and honest about what fails."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pikepdf
import pytest
from django.core.files.storage import default_storage

from rag import models
from rag.core.errors import ConflictError, ProviderError, RAGError
from rag.services.ingest import indexing as index_service
from rag.services.ingest import indexing as publish_service
from tests.factories import StoreFactory
from tests.integration.index_desk import (
    WatchedEmbedder,
    ask,
    assert_whole,
    forget_jobs,
    live,
    put,
    run_job,
    vectors,
    watch,
    work,
)

pytestmark = pytest.mark.django_db(transaction=True)
SHIPPED = Path(__file__).parents[3] / "rag" / "demo" / "documents"
# About sixty chunks of fifty words in two batches.
LONG = "\n\n".join(
    f"Rule {n}: " + " ".join(f"word{n * 45 + i}" for i in range(45)) for n in range(60)
)


@pytest.fixture
def store() -> Any:
    return StoreFactory(max_tokens_per_chunk=50, max_overlap_tokens=0)


@pytest.fixture(autouse=True)
def embedder(store: Any, monkeypatch: pytest.MonkeyPatch) -> WatchedEmbedder:
    return watch(store, monkeypatch)


def drafts() -> int:
    return int(ask("SELECT count(*) FROM rag_chunk_draft")[0][0])


def told(file: models.File | None) -> str:
    assert file is not None
    return str(RAGError.from_dict(file.error or {}))


def locked_pdf() -> bytes:
    with pikepdf.new() as document, io.BytesIO() as target:
        document.add_blank_page()
        document.save(target, encryption=pikepdf.Encryption(owner="o", user="u"))
        return target.getvalue()


def test_real_documents_become_chunks_with_exact_spans_and_pages(store: Any) -> None:
    paths = sorted(path for path in SHIPPED.iterdir() if path.is_file())
    files = work(*(put(store, path.read_bytes(), path.name) for path in paths))
    assert [(file.name, file.status, file.error) for file in files] == [
        (path.name, "completed", None) for path in paths
    ]
    assert_whole(store)
    assert drafts() == 0
    for file in files:
        assert (file.revision, file.progress) == (1, {})
        assert file.kind == Path(file.name).suffix[1:]
        chunks = live(file)
        assert chunks
        assert len(vectors(file)) == len(chunks)
        for page in file.pages:
            assert 0 <= page["start"] <= page["end"] <= len(file.canonical_text)
        for chunk in chunks:
            assert (chunk.page_first is None) == (not file.pages)
            if file.pages:
                assert 1 <= chunk.page_first <= chunk.page_last <= len(file.pages)  # type: ignore[operator]
                first = file.pages[chunk.page_first - 1]  # type: ignore[operator]
                assert first["start"] <= chunk.char_start < first["end"]
    assert store.n_chunks == sum(file.n_chunks for file in files)


def test_what_cannot_be_read_says_why_and_the_next_file_is_processed(store: Any) -> None:
    bad = {
        "locked.pdf": (locked_pdf(), "“locked.pdf” needs a password. Remove the password"),
        "broken.pdf": (b"%PDF-1.7\nbroken", "“broken.pdf” "),
        "empty.txt": (b"", "“empty.txt” "),
        "blank.md": (b" \n\t\n", "“blank.md” "),
        "noise.txt": (bytes(range(256)) * 64, "“noise.txt” "),
        "cut.docx": (b"PK\x03\x04" + b"\0" * 200, "“cut.docx” "),
    }
    files = [put(store, content, name) for name, (content, _) in bad.items()]
    good = put(store, "The pump stops at fault E21.", "good.txt")
    *failed, fine = work(*files, good)
    assert (fine.status, fine.n_chunks) == ("completed", 1)
    for file in failed:
        content, start = bad[file.name]
        assert file.status == "error", file.name
        assert told(file).startswith(start)
        assert told(file).endswith(".")
        assert default_storage.open(file.content.name).read() == content
        assert (file.revision, file.n_chunks, file.progress) == (0, 0, {})
    assert_whole(store)
    assert ask("SELECT DISTINCT status FROM procrastinate_jobs WHERE queue_name = 'index'") == [
        ("succeeded",)
    ]


def test_indexing_again_keeps_ids_and_vectors_and_embeds_nothing(
    store: Any, embedder: WatchedEmbedder
) -> None:
    file = put(store, LONG)
    run_job(file)
    before, kept = vectors(file), [(chunk.pk, chunk.text) for chunk in live(file)]
    assert len(kept) > 50
    embedder.forget()
    again = run_job(file)
    assert again is not None
    assert (again.revision, again.status) == (2, "completed")
    assert [(chunk.pk, chunk.text) for chunk in live(file)] == kept
    assert vectors(file) == before
    assert embedder.texts == []
    assert_whole(store)


def test_fresh_vectors_are_made_when_asked_for(store: Any, embedder: WatchedEmbedder) -> None:
    file = put(store, LONG)
    run_job(file)
    ids = [chunk.pk for chunk in live(file)]
    embedder.forget()
    run_job(file, fresh_vectors=True)
    assert len(embedder.texts) == len(ids)
    assert [chunk.pk for chunk in live(file)] == ids
    assert_whole(store)


def test_only_what_changed_is_embedded(store: Any, embedder: WatchedEmbedder) -> None:
    file = put(store, LONG)
    run_job(file)
    before = {chunk.text: chunk.pk for chunk in live(file)}
    changed = LONG.replace("word7 ", "changed ")
    Path(file.content.path).write_text(changed, encoding="utf-8")
    embedder.forget()
    run_job(file)
    after = {chunk.text: chunk.pk for chunk in live(file)}
    fresh = after.keys() - before.keys()
    assert embedder.texts == list(fresh)
    assert len(fresh) == 1
    assert all(after[text] == before[text] for text in after.keys() - fresh)
    assert_whole(store)


def test_other_chunk_settings_cut_anew(store: Any) -> None:
    file = put(store, LONG)
    run_job(file)
    n_before = len(live(file))
    models.Store.objects.update(max_tokens_per_chunk=400, max_overlap_tokens=100)
    again = run_job(file)
    assert again is not None
    assert 0 < again.n_chunks < n_before / 3
    assert_whole(store)


def test_repeated_paragraphs_are_neither_lost_nor_doubled(
    store: Any, embedder: WatchedEmbedder
) -> None:
    same = " ".join(f"clause{i}" for i in range(45))
    file = put(store, "\n\n".join([same] * 70))
    run_job(file)
    n_chunks = len(live(file))
    Path(file.content.path).write_text("\n\n".join([same] * 68 + [LONG]), encoding="utf-8")
    run_job(file)
    assert len(live(file)) > n_chunks
    assert_whole(store)
    run_job(file)
    assert_whole(store)


@pytest.mark.parametrize("n_batches", [1, 2])
def test_a_job_that_died_embeds_only_what_is_missing(
    store: Any, embedder: WatchedEmbedder, n_batches: int
) -> None:
    undisturbed = put(StoreFactory(max_tokens_per_chunk=50, max_overlap_tokens=0), LONG)
    run_job(undisturbed)
    expected = [(chunk.char_start, chunk.text) for chunk in live(undisturbed)]
    embedder.forget()

    def dying(n: int) -> None:
        if n == n_batches + 1:
            raise MemoryError

    embedder.before = dying
    file = put(store, LONG + "\n\n" + LONG.replace("word", "more"))
    with pytest.raises(MemoryError):
        run_job(file)
    n_written = drafts()
    assert n_written == 32 * n_batches
    assert live(file) == []
    embedder.forget()
    again = run_job(file)
    assert again is not None
    assert len(embedder.texts) == again.n_chunks - n_written
    assert [(chunk.char_start, chunk.text) for chunk in live(file)][: len(expected)] == expected
    assert drafts() == 0
    assert_whole(store)


def test_a_draft_of_other_settings_is_not_gone_on_with(
    store: Any, embedder: WatchedEmbedder
) -> None:
    def dying(n: int) -> None:
        if n == 2:
            raise MemoryError

    embedder.before = dying
    file = put(store, LONG)
    with pytest.raises(MemoryError):
        run_job(file)
    models.Store.objects.update(max_tokens_per_chunk=100)
    embedder.forget()
    again = run_job(file)
    assert again is not None
    assert len(embedder.texts) == again.n_chunks
    assert_whole(store)


def test_a_model_that_fails_leaves_the_live_revision_and_says_so(
    store: Any, embedder: WatchedEmbedder
) -> None:
    file = put(store, LONG)
    run_job(file)
    before = vectors(file)

    def failing(n: int) -> None:
        raise ProviderError("The model does not answer.", hint="Try later.")

    embedder.before = failing
    failed = run_job(file, fresh_vectors=True)
    assert failed is not None
    assert (failed.status, failed.revision) == ("error", 1)
    assert told(failed) == "The model does not answer. Try later."
    assert vectors(file) == before
    assert_whole(store)
    embedder.forget()
    mended = run_job(file)
    assert mended is not None
    assert (mended.status, mended.error) == ("completed", None)


def vanish_at_publication(
    monkeypatch: pytest.MonkeyPatch, file: models.File, *, times: int
) -> list[int]:
    """Take a live vector away just before the swap."""
    publish, calls = publish_service.activate_revision, list[int]()

    def publishing(**values: Any) -> bool:
        calls.append(1)
        if len(calls) <= times:
            ask(
                "DELETE FROM rag_chunk_vec WHERE chunk_id = (SELECT max(chunk_id) FROM"
                " rag_chunk_vec WHERE file_id = %s) RETURNING 1",
                file.pk,
            )
        return publish(**values)

    monkeypatch.setattr(index_service, "activate_revision", publishing)
    return calls


def test_a_vector_that_vanishes_is_made_anew(
    store: Any, embedder: WatchedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(store, LONG)
    run_job(file)
    embedder.forget()
    calls = vanish_at_publication(monkeypatch, file, times=1)
    again = run_job(file)
    assert again is not None
    assert (again.status, again.revision, len(calls)) == ("completed", 2, 2)
    assert len(embedder.texts) == 1
    assert_whole(store)


def test_vectors_that_keep_vanishing_are_told_and_the_next_try_is_clean(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(store, LONG)
    run_job(file)
    vanish_at_publication(monkeypatch, file, times=2)
    failed = run_job(file)
    assert told(failed) == "The file's chunks changed while it was indexed. Index it again."
    assert drafts() == 0
    mended = run_job(file)
    assert mended is not None
    assert mended.status == "completed"
    assert_whole(store)


def test_a_refused_swap_changes_nothing(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = put(store, LONG)
    run_job(file)
    before = [(chunk.pk, chunk.ordinal, chunk.file_revision) for chunk in live(file)]
    vanish_at_publication(monkeypatch, file, times=2)
    with pytest.raises(ConflictError):
        monkeypatch.setattr(index_service, "record_file_error", raise_it)
        run_job(file)
    assert [(chunk.pk, chunk.ordinal, chunk.file_revision) for chunk in live(file)] == before


def raise_it(*, file_id: int, error: RAGError) -> None:
    raise error


def test_missing_bytes_are_told(store: Any) -> None:
    file = put(store, "text")
    Path(file.content.path).unlink()
    failed = run_job(file)
    assert told(failed) == "The stored bytes of “a.txt” are missing. Upload the file again."


def test_a_file_that_is_gone_is_nothing_to_do(store: Any) -> None:
    file = put(store, "text")
    pk = file.pk
    file.delete()
    index_service.index_file(file_id=pk)
    assert not models.File.objects.exists()


def test_an_error_nobody_foresaw_is_told_and_the_worker_lives(
    store: Any, embedder: WatchedEmbedder
) -> None:
    def failing(n: int) -> None:
        if n == 1:
            raise ZeroDivisionError

    embedder.before = failing
    bad, good = put(store, "bad"), put(store, "good", "good.txt")
    failed, fine = work(bad, good)
    states = {failed.status, fine.status}
    assert states == {"error", "completed"}
    unlucky = failed if failed.status == "error" else fine
    assert told(unlucky).startswith("An internal error stopped the job: ZeroDivisionError.")


def test_a_chunk_rule_that_was_clamped_is_a_warning(store: Any) -> None:
    models.Store.objects.update(max_tokens_per_chunk=50, max_overlap_tokens=100)
    file = run_job(put(store, LONG))
    assert file is not None
    assert file.warnings == [
        {
            "message": "An overlap of {overlap} tokens would swallow chunks of {size}: {used} is used.",
            "hint": "",
            "params": {"overlap": "100", "size": "50", "used": "22"},
        }
    ]
    assert file.status == "completed"
    assert_whole(store)
    forget_jobs()

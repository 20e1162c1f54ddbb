"""OCR of a store's files: switched on by the store, kept page by page, told where it is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile

from rag import models
from rag.core.access import Scope
from rag.core.ocr.scans import OCR_VERSION, PageWords
from rag.providers.sandbox.recognizer import SandboxedRecognizer
from rag.services.answers import page_image
from rag.services.ingest import index_file, recognition
from rag.services.reindex.rebuild import is_stale
from rag.services.wiring import registry
from tests import scans
from tests.factories import DIM, FileFactory, StoreFactory
from tests.fakes.words_embedder import WordsEmbedder

pytestmark = pytest.mark.slow

pytest.importorskip("rapidocr")
TEXTS = ["The pump is serviced every 30 days.", "The filter costs 45 yuan."]
Q = models.File.objects


@pytest.fixture(autouse=True)
def embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    made = WordsEmbedder(DIM)
    monkeypatch.setattr(registry, "embedder_of", lambda space_id: made)


def scanned(store: Any, n_pages: int = 2, **values: Any) -> Any:
    pages = [
        scans.paper(scans.lines([text, f"Sheet {n + 1} of the plan."]))
        for n, text in zip(range(n_pages), TEXTS * n_pages, strict=False)
    ]
    return FileFactory(
        store=store, name="scan.pdf", content=ContentFile(scans.scan_pdf(pages), name="s"), **values
    )


def read_again(file: Any) -> Any:
    index_file(file_id=file.pk)
    file.refresh_from_db()
    return file


@pytest.mark.django_db
def test_a_scan_is_found_and_its_quote_is_marked_when_its_store_wants_ocr() -> None:
    store = StoreFactory()
    file = read_again(scanned(store))
    assert file.status == "error"
    assert file.error["message"] == "“{name}” has no text layer: its pages are images."
    assert (
        "pip install {package}" in file.error["hint"]
        and file.error["params"]["package"] == "rapidocr==3.10.0"
    )
    models.Store.objects.filter(pk=store.pk).update(ocr=True)
    assert Q.filter(is_stale(), pk=file.pk).exists()
    file = read_again(file)
    assert file.status == "completed", file.error
    assert file.parser.endswith(f"+{OCR_VERSION}")
    assert TEXTS[0] in file.canonical_text and file.pages[0]["confidence"] > 0.95
    assert not Q.filter(is_stale(), pk=file.pk).exists()
    drawn = page_image(file_id=file.pk, page=2, quote="filter costs 45", scope=Scope.operator())
    (left, top, width, height), *more = drawn.boxes
    assert (
        len(more) <= 1
        and 0.1 < left < 0.25
        and 0.08 < top < 0.1
        and 0.03 < width < 0.3
        and height < 0.03
    )


@pytest.mark.django_db
def test_a_file_that_was_read_before_is_stale_when_ocr_is_turned_on() -> None:
    store = StoreFactory()
    texts = FileFactory(store=store, kind="txt", parser="plain/4", n_chunks=1, status="completed")
    mixed = FileFactory(
        store=store, kind="pdf", parser="pypdfium2/5", n_chunks=1, status="completed"
    )
    assert not Q.filter(is_stale(), store=store).exists()
    models.Store.objects.filter(pk=store.pk).update(ocr=True)
    assert list(Q.filter(is_stale(), store=store)) == [mixed] != [texts]
    Q.filter(pk=mixed.pk).update(parser=f"pypdfium2/5+{OCR_VERSION}")
    assert not Q.filter(is_stale(), store=store).exists()


@pytest.mark.django_db
def test_a_killed_job_goes_on_behind_the_pages_that_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = StoreFactory(ocr=True)
    file = scanned(store, n_pages=3)
    asked: list[set[int]] = []
    real = SandboxedRecognizer.recognize

    class Killed(Exception):
        pass

    def recognize(self: Any, path: Path, name: str, *, known: Any, on_page: Any) -> None:
        asked.append(set(known))

        def on(page: PageWords, n_pages: int) -> None:
            on_page(page, n_pages)
            state = Q.values_list("progress", flat=True).get(pk=file.pk)
            assert state["stage"] == "recognizing" and state["pages"] == 3
            if len(asked) == 1 and page.number == 1:
                raise Killed

        real(SandboxedRecognizer(threads=1), path, name, known=known, on_page=on)

    monkeypatch.setattr(SandboxedRecognizer, "recognize", recognize)
    with pytest.raises(Killed):
        index_file(file_id=file.pk)
    file = read_again(file)
    assert asked == [set(), {1}]
    assert file.status == "completed" and len(file.pages) == 3
    assert "Sheet 1" in file.canonical_text and "Sheet 3" in file.canonical_text


@pytest.mark.django_db
def test_scans_give_way_to_smaller_files_between_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    file = scanned(StoreFactory(ocr=True), n_pages=3)
    begun: list[list[int]] = []

    def recognize(self: Any, path: Path, name: str, *, known: Any, on_page: Any) -> None:
        begun.append(sorted(known))
        for number in {1, 2, 3} - set(known):
            on_page(PageWords(number, 100, 100), 3)

    monkeypatch.setattr(SandboxedRecognizer, "recognize", recognize)
    assert [index_file(file_id=file.pk, gives_way=lambda: True) for _ in range(2)] == [False] * 2
    file.refresh_from_db()
    assert file.status == "processing" and file.progress["stage"] == "recognizing"
    assert index_file(file_id=file.pk, gives_way=lambda: True)
    assert begun == [[], [1], [1, 2]]


@pytest.mark.django_db
def test_without_the_package_it_is_told_as_without_the_switch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SandboxedRecognizer, "is_installed", lambda self: False)
    file = read_again(scanned(StoreFactory(ocr=True)))
    assert file.status == "error" and "{package}" in file.error["hint"]


@pytest.mark.django_db
def test_words_of_bytes_that_were_replaced_go(tmp_path: Path) -> None:
    file = read_again(scanned(StoreFactory(ocr=True), n_pages=1))
    models.ScannedPage.objects.create(
        file=file, sha256="0" * 64, number=9, engine="old", confidence=1, words=""
    )
    read_again(file)
    assert list(file.scanned_pages.values_list("sha256", "number")) == [(file.sha256, 1)]


@pytest.mark.django_db
def test_pages_beyond_the_limit_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    small = SandboxedRecognizer(max_pages=1, threads=1)
    monkeypatch.setattr(recognition, "_recognizer", lambda: small)
    file = read_again(scanned(StoreFactory(ocr=True), n_pages=3))
    assert file.status == "completed"
    assert file.warnings[0]["message"].startswith("No text layer on page {pages}")
    assert file.warnings[0]["params"]["pages"] == "2, 3"
    assert "RAG_OCR_MAX_PAGES" in file.warnings[1]["message"] and len(file.warnings) == 2

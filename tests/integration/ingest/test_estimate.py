"""What an ingest would cost, told without storing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag import models
from rag.services.files.archives import collect_items
from rag.services.ingest import preview as estimate_module
from rag.services.ingest.preview import IngestEstimate, estimate_ingest
from tests import hostile_files
from tests.edges.admin_client import use_words_embedder
from tests.factories import StoreFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> models.Store:
    use_words_embedder(monkeypatch, settings)
    return StoreFactory()


def of(store: models.Store, folder: Path) -> IngestEstimate:
    return estimate_ingest(store=store, items=list(collect_items(paths=[str(folder)])))


def test_files_bytes_and_chunks_are_counted(store: models.Store, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The pump stops.")
    (tmp_path / "b.md").write_text("# Valve\n\nThe valve is blue.")
    found = of(store, tmp_path)
    assert (found.n_files, found.n_bytes, found.n_chunks, found.refused) == (2, 42, 2, ())
    assert found.seconds >= 0
    assert found.as_text().startswith("2 files, 0.0 MB: about 2 chunks, 0 s of embedding.")
    assert not models.File.objects.exists()


def test_a_long_text_is_extrapolated_from_its_beginning(
    store: models.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("The pump stops at once. " * 3000)
    exact = of(store, tmp_path).n_chunks
    monkeypatch.setattr(estimate_module, "SAMPLE_CHARS", 5000)
    assert of(store, tmp_path).n_chunks == pytest.approx(exact, rel=0.15)


def test_what_cannot_be_read_is_listed_and_the_rest_counted(
    store: models.Store, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("The pump stops.")
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.7\nbroken")
    found = of(store, tmp_path)
    assert found.n_chunks == 1
    assert len(found.refused) == 1
    assert found.refused[0].startswith("bad.pdf: ")
    assert "\nrefused: bad.pdf: " in found.as_text()


def test_nothing_costs_nothing(store: models.Store, tmp_path: Path) -> None:
    assert of(store, tmp_path).as_text() == "0 files, 0.0 MB: about 0 chunks, 0 s of embedding."


def test_what_an_ingest_would_refuse_for_its_size_is_refused(
    store: models.Store, tmp_path: Path, settings: Any
) -> None:
    settings.RAG = {**settings.RAG, "MAX_FILE_BYTES": 2 * 1024**2}
    (tmp_path / "a.txt").write_text("The pump stops.")
    (tmp_path / "b.txt").write_bytes(b"x" * (2 * 1024**2 + 1))
    found = of(store, tmp_path)
    assert found.n_chunks == 1
    assert found.refused == ("b.txt: “b.txt” is larger than 2 MB. Split it and upload the parts.",)


def test_scanned_pages_are_counted_where_the_store_reads_them(
    store: models.Store, tmp_path: Path
) -> None:
    (tmp_path / "scan.pdf").write_bytes(hostile_files.scan_page())
    (tmp_path / "a.txt").write_text("The pump stops.")
    assert len(of(store, tmp_path).refused) == 1
    store.ocr = True
    found = of(store, tmp_path)
    assert (found.n_chunks, found.n_scanned, found.refused) == (1, 1, ())
    assert "\nText recognition of 1 pages: about 1 minutes" in found.as_text()

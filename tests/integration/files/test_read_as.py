"""A text whose encoding was told wrongly is read by the right one, now and ever after."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.core.access import Scope
from rag.core.errors import ForbiddenError, InvalidInputError
from rag.services.files.archives import UploadItem
from rag.services.files.replace import set_encoding
from rag.services.files.requeue import requeue_files
from rag.services.files.upload import upload_file
from rag.services.ingest.preview import estimate_ingest
from tests.factories import StoreFactory, UserFactory
from tests.integration.index_desk import forget_jobs, live, run_job, watch

pytestmark = pytest.mark.django_db
# Cyrillic in a single-byte encoding: each byte is sound in several others.
TEXT = "Насос проверяют каждое утро до начала смены. Вода должна быть чистой."
RAW = TEXT.encode("koi8-r")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = StoreFactory(owner=UserFactory())
    watch(made, monkeypatch)
    return made


def taken(store: models.Store, encoding: str = "", raw: bytes = RAW) -> models.File:
    content = io.BytesIO(raw)
    return upload_file(store=store, name="a.txt", content=content, encoding=encoding).file


def indexed(file: models.File) -> models.File:
    done = run_job(file)
    assert done is not None
    return done


def test_an_ingest_reads_by_the_encoding_that_it_was_given(store: Any) -> None:
    file = indexed(taken(store, "mac_cyrillic", TEXT.encode("mac_cyrillic")))
    assert file.canonical_text == TEXT
    assert (file.encoding_override, file.encoding) == ("mac-cyrillic", "mac-cyrillic")
    assert live(file)[0].text == TEXT


def test_the_encoding_is_kept_for_every_later_reading(store: Any) -> None:
    file = indexed(taken(store, "KOI8-R"))
    requeue_files(store=store, file_ids=[file.pk])
    again = indexed(file)
    assert (again.canonical_text, again.encoding_override) == (TEXT, "koi8-r")


def test_a_file_that_was_read_wrongly_is_read_anew_by_a_job(store: Any) -> None:
    file = indexed(taken(store, "cp1252"))
    assert "Насос" not in file.canonical_text
    assert set_encoding(scope=Scope.operator(), file=file, encoding="koi8_r")
    (job,) = ProcrastinateJob.objects.values_list("args", flat=True)
    assert job["file_id"] == file.pk
    # Until the job has run the old text serves.
    assert live(file)[0].text != TEXT
    file = indexed(file)
    assert (file.canonical_text, file.encoding, file.revision) == (TEXT, "koi8-r", 2)
    assert [chunk.text for chunk in live(file)] == [TEXT]
    assert set_encoding(scope=Scope.operator(), file=file, encoding="")
    assert indexed(file).encoding_override == ""


def test_what_is_no_change_queues_nothing(store: Any) -> None:
    file = taken(store, "koi8-r")
    forget_jobs()
    assert not set_encoding(scope=Scope.operator(), file=file, encoding="KOI8-R")
    assert not ProcrastinateJob.objects.exists()


def test_an_unknown_encoding_or_a_stranger_changes_nothing(store: Any) -> None:
    file = taken(store)
    forget_jobs()
    with pytest.raises(InvalidInputError, match="“klingon” is no encoding"):
        set_encoding(scope=Scope.operator(), file=file, encoding="klingon")
    with pytest.raises(ForbiddenError):
        set_encoding(scope=Scope(user_id=UserFactory().pk), file=file, encoding="koi8-r")
    with pytest.raises(InvalidInputError):
        taken(store, "klingon", b"other")
    assert models.File.objects.get().encoding_override == ""
    assert not ProcrastinateJob.objects.exists()


def test_the_same_bytes_with_another_encoding_are_the_same_file_read_anew(store: Any) -> None:
    file = indexed(taken(store, "cp1252"))
    forget_jobs()
    again = upload_file(store=store, name="b.txt", content=io.BytesIO(RAW), encoding="koi8-r")
    assert (again.is_new, again.file.pk) == (False, file.pk)
    assert again.file.status == "processing"
    assert indexed(file).canonical_text == TEXT
    # Without a word about it what was said before holds.
    assert not upload_file(store=store, name="c.txt", content=io.BytesIO(RAW)).is_new
    file.refresh_from_db()
    assert (file.encoding_override, file.status) == ("koi8-r", "completed")


def test_an_encoding_that_does_not_fit_is_an_error_with_the_bytes_kept(store: Any) -> None:
    file = indexed(taken(store, "utf-8"))
    assert file.status == "error"
    assert (file.error or {})["message"] == "“{name}” cannot be read as {encoding}."
    assert file.content.size == len(RAW)
    set_encoding(scope=Scope.operator(), file=file, encoding="koi8-r")
    assert indexed(file).status == "completed"


def test_one_bad_byte_in_a_long_text_is_a_warning_not_a_refusal(store: Any) -> None:
    raw = ("泵每天早上检查一次。" * 60).encode("gb18030")
    file = indexed(taken(store, "gbk", raw[:301] + b"\xff" + raw[301:]))
    assert file.status == "completed"
    assert file.warnings[0]["message"].startswith("Damaged characters")


def test_files_that_are_no_text_are_read_as_ever(store: Any, tmp_path: Path) -> None:
    from tests import hostile_files

    data = hostile_files.text_pdf([["A pump moves water from a low place to a high place."]])
    file = indexed(taken(store, "koi8-r", data))
    assert (file.kind, file.status) == ("pdf", "completed")


def test_an_estimate_reads_as_the_ingest_would(store: Any) -> None:
    items = [UploadItem("a.txt", len(RAW), lambda: io.BytesIO(RAW))]
    assert estimate_ingest(store=store, items=items, encoding="koi8-r").refused == ()
    (refused,) = estimate_ingest(store=store, items=items, encoding="utf-8").refused
    assert "cannot be read as utf-8" in refused
    with pytest.raises(InvalidInputError):
        estimate_ingest(store=store, items=items, encoding="klingon")

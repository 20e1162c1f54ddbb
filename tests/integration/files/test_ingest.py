"""A file on its way into a store: hashed, filed once, queued; refused without a trace."""

from __future__ import annotations

import hashlib
import io
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.db import OperationalError, connections, transaction
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.core.errors import ConfigurationError, ConflictError, InvalidInputError, LimitError
from rag.services.files import upload as take_service
from rag.services.files.upload import clean_name, upload_file
from rag.services.operations.recovery import remove_orphans
from rag.services.stores.lifecycle import delete_store
from tests.factories import StoreFactory

MB = 1024 * 1024
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def media(settings: Any, tmp_path: Path) -> Path:
    settings.MEDIA_ROOT = tmp_path / "media"
    settings.FILE_UPLOAD_TEMP_DIR = tmp_path
    return tmp_path / "media"


@pytest.fixture
def store() -> Any:
    return StoreFactory()


def take(store: models.Store, content: bytes = b"text", name: str = "a.txt") -> Any:
    return upload_file(store=store, name=name, content=io.BytesIO(content))


def on_disk(media: Path) -> list[str]:
    return sorted(str(path.relative_to(media)) for path in media.rglob("*") if path.is_file())


def jobs() -> list[tuple[str, int]]:
    rows = ProcrastinateJob.objects.order_by("pk").values_list("task_name", "args")
    return [(task, args["file_id"]) for task, args in rows]


class Zeros(io.RawIOBase):
    """As many zeros as asked for, without holding them."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.largest_read = 0

    def read(self, size: int = -1) -> bytes:
        self.largest_read = max(self.largest_read, self.left if size < 0 else size)
        n = self.left if size < 0 else min(size, self.left)
        self.left -= n
        return bytes(n)


def test_bytes_are_kept_hashed_and_queued(store: Any, media: Path) -> None:
    content = os.urandom(3 * MB + 17)
    taken = take(store, content, "报告.pdf")
    file = models.File.objects.get()
    assert taken.is_new
    assert taken.file == file
    assert (file.name, file.size, file.status) == ("报告.pdf", len(content), "processing")
    assert file.sha256 == hashlib.sha256(content).hexdigest()
    assert file.content.read() == content
    assert on_disk(media) == [file.content.name]
    assert jobs() == [("rag.index_file", file.pk)]


def test_facts_come_along(store: Any) -> None:
    upload_file(
        store=store, name="a", content=io.BytesIO(b"a"), content_type="outline", metadata={"y": 1}
    )
    file = models.File.objects.get()
    assert (file.content_type, file.metadata) == ("outline", {"y": 1})


def test_a_stream_is_read_in_pieces(store: Any) -> None:
    zeros: Any = Zeros(20 * MB)
    file = upload_file(store=store, name="zeros", content=zeros).file
    assert zeros.largest_read <= MB
    assert file.sha256 == hashlib.sha256(bytes(20 * MB)).hexdigest()


def test_a_hundred_megabytes_are_taken_and_one_byte_more_is_not(store: Any, media: Path) -> None:
    taken: Any = Zeros(100 * MB)
    assert upload_file(store=store, name="full.txt", content=taken).file.size == 100 * MB
    before = on_disk(media)
    refused: Any = Zeros(100 * MB + 1)
    with pytest.raises(LimitError) as caught:
        upload_file(store=store, name="more.txt", content=refused)
    said = "“more.txt” is larger than 100 MB. Split it and upload the parts."
    assert str(caught.value) == said
    assert on_disk(media) == before
    assert models.File.objects.count() == len(jobs()) == 1


def test_no_more_than_a_piece_beyond_the_limit_is_read(store: Any, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "MAX_FILE_BYTES": 2 * MB}
    endless: Any = Zeros(10**15)
    with pytest.raises(LimitError):
        upload_file(store=store, name="endless", content=endless)
    assert 10**15 - endless.left <= 3 * MB


def test_the_same_bytes_are_one_file_a_store(store: Any, media: Path) -> None:
    first = take(store, b"same", "first.txt")
    second = take(store, b"same", "second.txt")
    assert (first.is_new, second.is_new) == (True, False)
    assert second.file == first.file
    assert second.file.name == "first.txt"
    other = take(StoreFactory(), b"same", "third.txt")
    assert other.is_new
    assert models.File.objects.count() == len(on_disk(media)) == len(jobs()) == 2


def test_racing_uploads_of_the_same_bytes_are_one_file(store: Any, media: Path) -> None:
    content = os.urandom(200_000)
    start = threading.Barrier(6)

    def upload(n: int) -> bool:
        try:
            start.wait(10)
            return bool(take(store, content, f"{n}.txt").is_new)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(upload, range(6)))
    assert sorted(outcomes) == [False] * 5 + [True]
    file = models.File.objects.get()
    assert on_disk(media) == [file.content.name]
    assert file.content.read() == content
    assert jobs() == [("rag.index_file", file.pk)]


@pytest.mark.parametrize("status", ["idle", "error"])
def test_bytes_that_wait_for_nothing_are_queued_again(store: Any, status: str) -> None:
    file = take(store).file
    ProcrastinateJob.objects.all()._raw_delete("default")
    models.File.objects.update(status=status)
    taken = take(store)
    assert (taken.is_new, taken.file.status) == (False, "processing")
    assert jobs() == [("rag.index_file", file.pk)]


def test_bytes_that_are_completed_are_left_alone(store: Any) -> None:
    file = take(store).file
    ProcrastinateJob.objects.all()._raw_delete("default")
    models.File.objects.update(status="completed")
    assert take(store).file.status == "completed"
    assert jobs() == []
    assert models.File.objects.get() == file


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("a\0b.txt", "ab.txt"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        ("C:\\files\\年报.docx", "年报.docx"),
        ("folder/", "folder"),
        ("gnp.\u202etxt.exe", "gnp.txt.exe"),
        ("\u2066a\u2069\u200f\u200e\u061c.txt", "a.txt"),
        ("a\u2028b\u0085c\r\nd.txt", "abcd.txt"),
        ("\ud800a.txt", "a.txt"),
        ("\ufeff a.txt ", "a.txt"),
        ("e\u0301.txt", "é.txt"),
        ("x" * 400 + ".pdf", "x" * 251 + ".pdf"),
        ("年" * 400, "年" * 255),
        ("a." + "b" * 400, "a." + "b" * 20),
        ("👩\u200d🔬.txt", "👩\u200d🔬.txt"),
    ],
)
def test_names_are_cleaned_and_stored(store: Any, media: Path, given_name: str, kept: str) -> None:
    assert take(store, name=given_name).file.name == kept
    assert models.File.objects.get().name == kept
    (path,) = on_disk(media)
    assert path.startswith(f"stores/{store.pk}/")


@pytest.mark.parametrize("name", ["", " ", ".", "..", "../..", "/", "\\", "\0", "a/..", "\u202e"])
def test_unusable_names_are_refused_without_a_trace(store: Any, media: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match="The file has no usable name. Give it a name"):
        take(store, name=name)
    assert on_disk(media) == []
    assert not models.File.objects.exists()


@given(st.text(st.characters(), max_size=600))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_name_is_safe_or_refused(name: str) -> None:
    try:
        kept = clean_name(name)
    except InvalidInputError:
        return
    assert 0 < len(kept) <= 255
    assert not set(kept) & {"/", "\\", "\0", "\n", "\u202e"}
    assert kept not in (".", "..")
    assert kept.encode("utf-8")
    assert clean_name(kept) == kept or len(kept) == 255


def test_a_stream_that_breaks_leaves_nothing(store: Any, media: Path) -> None:
    class Breaking(Zeros):
        def read(self, size: int = -1) -> bytes:
            if self.left < 2 * MB:
                raise OSError(104, "Connection reset by peer")
            return super().read(size)

    broken: Any = Breaking(5 * MB)
    with pytest.raises(ConfigurationError, match="“a.txt” could not be stored: Connection reset"):
        upload_file(store=store, name="a.txt", content=broken)
    assert on_disk(media) == []
    assert not models.File.objects.exists()


def test_a_full_disk_is_one_sentence(store: Any) -> None:
    store_bytes = Zeros(1)

    def full(size: int = -1) -> bytes:
        raise OSError(28, "No space left on device")

    store_bytes.read = full  # type: ignore[method-assign]
    with pytest.raises(ConfigurationError, match="No space left on device. See to the space"):
        upload_file(store=store, name="a.txt", content=store_bytes)  # type: ignore[arg-type]


def test_a_transaction_that_rolls_back_leaves_no_bytes_and_no_job(
    store: Any, media: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args: Any, **kwargs: Any) -> bool:
        raise ValueError("the queue refuses")

    monkeypatch.setattr(take_service, "queue_file", failing)
    with pytest.raises(ValueError, match="refuses"):
        take(store)
    assert on_disk(media) == []
    assert not models.File.objects.exists()
    assert jobs() == []


def test_a_transaction_around_it_could_not_clean_up_and_is_refused(store: Any, media: Path) -> None:
    with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
        take(store)
    assert on_disk(media) == []


def test_bytes_of_an_unknown_outcome_are_kept(
    store: Any, media: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit whose answer is lost may have happened: its row must find its bytes."""

    def lost(*args: Any, **kwargs: Any) -> bool:
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(take_service, "queue_file", lost)
    with pytest.raises(OperationalError):
        take(store)
    assert len(on_disk(media)) == 1
    assert remove_orphans(older_than_s=0.0) == 1
    assert on_disk(media) == []


def test_a_store_that_was_deleted_meanwhile_is_told(store: Any, media: Path) -> None:
    stale = models.Store.objects.get(pk=store.pk)
    delete_store(store=store)
    with pytest.raises(ConflictError, match=f"The store “{stale.name}” was deleted meanwhile."):
        take(stale)
    assert on_disk(media) == []


@pytest.fixture
def orphan(media: Path) -> Iterator[str]:
    yield default_storage.save("stores/1/orphan", io.BytesIO(b"x"))  # type: ignore[arg-type]


def test_only_old_bytes_without_a_file_are_orphans(store: Any, media: Path, orphan: str) -> None:
    kept = take(store).file.content.name
    assert remove_orphans() == 0
    old = time.time() - 2 * 24 * 3600
    for name in on_disk(media):
        os.utime(media / name, (old, old))
    assert remove_orphans() == 1
    assert on_disk(media) == [kept]

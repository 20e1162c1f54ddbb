"""Uploads of every kind: each document gets its own outcome, and a refusal keeps no bytes."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage

from rag import models
from rag.core.access import Scope
from rag.services.files.bulk_upload import UploadRequest, UploadResult, upload_many
from rag.services.files.content import open_original
from tests.factories import FileFactory, StoreFactory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def store() -> Any:
    return StoreFactory()


def take(
    store: Any,
    tmp_path: Path,
    content: bytes,
    name: str = "a.txt",
    wish: UploadRequest | None = None,
) -> list[UploadResult]:
    path = tmp_path / "upload"
    path.write_bytes(content)
    return list(
        upload_many(
            scope=Scope.operator(),
            store=store,
            path=path,
            name=name,
            request=wish or UploadRequest(),
        )
    )


def packed(**members: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in members.items():
            bundle.writestr(name.replace("__", "."), content)
    return target.getvalue()


def outcomes(taken: list[UploadResult]) -> list[tuple[str, str]]:
    return [(one.name, one.outcome) for one in taken]


def test_what_was_wished_holds_for_every_document(store: Any, tmp_path: Path) -> None:
    wish = UploadRequest("manual", {"lang": "en"})
    taken = take(store, tmp_path, packed(a__txt=b"1", b__txt=b"2"), "b.zip", wish)
    assert outcomes(taken) == [("a.txt", "taken"), ("b.txt", "taken")]
    for file in models.File.objects.all():
        assert (file.content_type, file.metadata) == ("manual", {"lang": "en"})


def test_without_a_wish_the_defaults_hold(store: Any, tmp_path: Path) -> None:
    take(store, tmp_path, b"1")
    file = models.File.objects.get()
    assert (file.content_type, file.metadata, file.name) == ("document", {}, "a.txt")
    original = Path(default_storage.path(str(file.content.name)))
    assert original.stat().st_mode & 0o777 == 0o600
    assert original.parent.stat().st_mode & 0o777 == 0o700


def test_replacing_within_a_bundle_keeps_what_is_not_wished_anew(
    store: Any, tmp_path: Path
) -> None:
    wish = UploadRequest("manual", {"lang": "en"})
    take(store, tmp_path, packed(a__txt=b"1", b__txt=b"2"), "b.zip", wish)
    again = take(
        store,
        tmp_path,
        packed(a__txt=b"one", b__txt=b"2", c__txt=b"3"),
        "b.zip",
        UploadRequest(is_replacing=True),
    )
    assert outcomes(again) == [("a.txt", "replaced"), ("b.txt", "known"), ("c.txt", "taken")]
    file = models.File.objects.get(name="a.txt")
    assert (file.size, file.content_type, file.metadata) == (3, "manual", {"lang": "en"})
    assert models.File.objects.count() == 3


def test_refusals_say_why_and_leave_no_bytes(store: Any, tmp_path: Path, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "MAX_FILE_BYTES": 1000}
    for content, name, said in [
        (b"x" * 1001, "large.txt", "larger than"),
        (b"x", "\u202e", "no usable name"),
        (packed(bomb__txt=b"0" * 30 * 1024**2), "bomb.zip", "would unpack"),
    ]:
        (one,) = take(store, tmp_path, content, name)
        assert one.outcome == "refused"
        assert one.file is None
        assert said in str(one.error)
    assert not models.File.objects.exists()
    folder = f"stores/{store.pk}"
    assert not default_storage.exists(folder) or default_storage.listdir(folder)[1] == []


def test_a_damaged_member_stops_no_other(store: Any, tmp_path: Path) -> None:
    content = bytearray(packed(a__txt=b"alpha" * 50, b__txt=b"beta"))
    content[content.index(b"a.txt") + 8] ^= 0xFF
    taken = take(store, tmp_path, bytes(content), "b.zip")
    assert outcomes(taken) == [("a.txt", "refused"), ("b.txt", "taken")]
    assert "damaged" in str(taken[0].error)


def test_the_original_comes_back_byte_by_byte(store: Any, tmp_path: Path) -> None:
    content = bytes(range(256)) * 3000
    (one,) = take(store, tmp_path, content)
    assert one.file is not None
    stream, size = open_original(file=one.file)
    with stream:
        assert (stream.read(), size) == (content, len(content))


def test_files_of_other_stores_are_never_replaced(store: Any, tmp_path: Path) -> None:
    other = FileFactory(name="a.txt")
    (one,) = take(store, tmp_path, b"new", wish=UploadRequest(is_replacing=True))
    assert one.outcome == "taken"
    other.refresh_from_db()
    assert other.size == 12


def test_two_files_of_one_name_in_a_zip_are_two_also_with_replace(
    store: Any, tmp_path: Path
) -> None:
    wish = UploadRequest(is_replacing=True)
    names = ["a/README.md", "b/README.md"]
    for first, outcome in ((b"one", "taken"), (b"another", "replaced")):
        content = packed(**{"a/README__md": first, "b/README__md": b"two " + first})
        taken = take(store, tmp_path, content, "docs.zip", wish)
        assert outcomes(taken) == [(name, outcome) for name in names]
    kept = {file.name: file for file in models.File.objects.filter(store=store)}
    assert sorted(kept) == names
    stream, _ = open_original(file=kept["a/README.md"])
    with stream:
        assert stream.read() == b"another"


def test_a_path_of_the_client_s_own_machine_is_no_folder(store: Any, tmp_path: Path) -> None:
    for name in ("C:\\docs\\a.txt", "/home/ann/b.txt"):
        take(store, tmp_path, name.encode(), name)
    found = models.File.objects.filter(store=store).values_list("name", flat=True)
    assert sorted(found) == ["a.txt", "b.txt"]

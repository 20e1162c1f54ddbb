"""Disks that are really full: a clear sentence, nothing half-stored, and it works when freed."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from rag import models
from rag.core.disk_full import is_disk_full
from rag.core.errors import ConfigurationError, RAGError
from rag.services.files.replace import replace_file
from rag.services.files.upload import upload_file
from rag.services.ingest.indexing import index_file
from tests.edges.admin_client import at, client_of
from tests.edges.api_client import KeyClient, client_for, error_of
from tests.factories import StoreFactory, UserFactory, upload
from tests.index_hits import index_hits
from tests.integration.index_desk import ask, live, put, run_job
from tests.integration.move_world import OPERATOR, filled_store, two_models
from tests.small_disk import SmallDisk, small_disk

__all__ = ["two_models"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("two_models")]
TEXT = b"The pump is serviced every 30 days.\n" * 40


@pytest.fixture
def any_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Lend a full disk, or what stands in for it."""
    with small_disk(tmp_path / "disk") as made:
        yield made


@pytest.fixture
def disk(any_disk: SmallDisk) -> SmallDisk:
    """Lend a full disk beside others that are not."""
    if not any_disk.is_mounted:
        pytest.skip("no file system can be mounted here")
    return any_disk


@pytest.fixture
def media(any_disk: SmallDisk, settings: Any) -> SmallDisk:
    settings.MEDIA_ROOT = any_disk.path
    return any_disk


def put_in(store: models.Store) -> models.File:
    return upload_file(store=store, name="pump.txt", content=io.BytesIO(TEXT)).file


def editor_desk() -> tuple[models.Store, Any]:
    permissions = ["add_file", "change_file", "view_store", "change_store", "view_file"]
    owner = UserFactory(permissions=permissions, is_staff=True)
    return StoreFactory(owner=owner, slug="manuals"), owner


def send(client: KeyClient) -> Any:
    form = {"store": "manuals", "files": [upload("pump.txt", TEXT)]}
    return client.post("/api/files", form)


def test_an_original_that_cannot_be_written_is_told_and_leaves_nothing(media: SmallDisk) -> None:
    store = StoreFactory()
    with pytest.raises(
        ConfigurationError, match="“pump.txt” could not be stored: .* See to the sp"
    ):
        put_in(store)
    assert not store.files.exists()
    assert media.files() == []
    media.free()
    file = run_job(put_in(store))
    assert file is not None and (file.status, live(file)[0].text[:8]) == ("completed", "The pump")


def test_new_bytes_that_find_no_room_leave_the_old_ones(media: SmallDisk) -> None:
    media.free()
    file = run_job(put(StoreFactory(), "The valve is red."))
    assert file is not None
    kept = media.files()
    media.fill()
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="could not be stored"):
            replace_file(scope=OPERATOR, file=file, content=io.BytesIO(TEXT), changes={})
    file.refresh_from_db()
    assert (media.files(), file.status, file.size) == (kept, "completed", 17)
    assert file.content.read() == b"The valve is red."


def test_uploads_over_http_are_answered_with_507(
    disk: SmallDisk, media: SmallDisk, settings: Any
) -> None:
    store, owner = editor_desk()
    client = client_for(owner)
    refused = error_or_result(send(client))
    assert "could not be stored" in refused["message"]
    settings.FILE_UPLOAD_TEMP_DIR = media.path
    error = error_of(send(client), 507)
    assert error["code"] == "disk_full"
    assert error["message"].startswith("The upload could not be kept: ")
    assert "Make room" in error["hint"]
    assert (store.files.count(), media.files()) == (0, [])
    media.free()
    assert send(client).status_code < 300
    assert store.files.get().size == len(TEXT)


def error_or_result(response: Any) -> dict[str, Any]:
    """Return the error of an upload, whether all or one of its files failed."""
    body = response.json()
    error: dict[str, Any] = body["error"] if "error" in body else body["results"][0]["error"]
    return error


def test_the_upload_page_says_it_too(disk: SmallDisk, media: SmallDisk, settings: Any) -> None:
    settings.FILE_UPLOAD_TEMP_DIR = media.path
    store, owner = editor_desk()
    client = client_of(owner)
    client.raise_request_exception = False
    response = client.post(at("rag_store_upload", store.pk), {"files": [upload("a.txt", TEXT)]})
    assert response.status_code == 507
    assert response.content.decode().startswith("The upload could not be kept: ")
    assert store.files.count() == 0


def test_a_parser_without_room_fails_the_file_and_its_bytes_stay(
    disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put_in(StoreFactory())
    monkeypatch.setattr(tempfile, "tempdir", str(disk.path))
    index_file(file_id=file.pk)
    file.refresh_from_db()
    told = str(RAGError.from_dict(file.error or {}))
    assert file.status == "error"
    assert told.startswith("“pump.txt” could not be read: ")
    assert f"Make room for temporary files in {disk.path}" in told
    assert (live(file), file.content.read(), disk.files()) == ([], TEXT, [])
    disk.free()
    run_job(file)
    file.refresh_from_db()
    assert (file.status, file.error) == ("completed", None)
    assert disk.files() == []


def test_a_disk_that_fills_up_while_the_text_is_written_is_told_apart(
    disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(StoreFactory(), "A long line about pumps.\n" * 50_000)
    disk.free()
    monkeypatch.setattr(tempfile, "tempdir", str(disk.path))
    index_file(file_id=file.pk)
    file.refresh_from_db()
    assert "No space left on device" in str(RAGError.from_dict(file.error or {}))


def test_a_dump_that_finds_no_room_leaves_no_file(disk: SmallDisk) -> None:
    filled_store(40, slug="house")
    target = disk.path / "house.dump"
    with pytest.raises(CommandError, match="house.dump” could not be written: .* write it elsew"):
        call_command("rag_dump", str(target), "--store", "house")
    assert disk.files() == []
    disk.free()
    call_command("rag_dump", str(target), "--store", "house")
    assert disk.files() == ["house.dump"]


@pytest.mark.parametrize("is_temporary", [False, True])
def test_a_dump_that_cannot_be_unpacked_leaves_no_store(
    disk: SmallDisk, tmp_path: Path, settings: Any, monkeypatch: Any, is_temporary: bool
) -> None:
    store = StoreFactory(slug="house", name="House")
    run_job(put_in(store))
    call_command("rag_dump", str(tmp_path / "dump"), "--store", "house")
    if is_temporary:
        monkeypatch.setattr(tempfile, "tempdir", str(disk.path))
    else:
        settings.MEDIA_ROOT = disk.path
    with pytest.raises(CommandError, match="could not be (stored|loaded): "):
        call_command("rag_load", str(tmp_path / "dump"), "--name", "Copy")
    assert not models.Store.objects.filter(name="Copy").exists()
    assert disk.files() == []
    disk.free()
    call_command("rag_load", str(tmp_path / "dump"), "--name", "Copy")
    assert models.Store.objects.get(name="Copy").n_chunks == store.files.get().n_chunks


@pytest.fixture
def small_database(tmp_path: Path) -> Iterator[SmallDisk]:
    """Lend a disk on which the database keeps the chunks."""
    folder = Path(str(ask("SHOW data_directory")[0][0]))
    with small_disk(tmp_path / "space") as disk:
        if not disk.is_mounted:
            pytest.skip("no file system can be mounted here")
        disk.free()
        place = disk.path / "data"
        place.mkdir(mode=0o700)
        owner = folder.stat()
        for path in (place, disk.path):
            os.chown(path, owner.st_uid, owner.st_gid)
        for path in (tmp_path, *tmp_path.parents[:-2]):
            path.chmod(path.stat().st_mode | 0o011)
        with connection.cursor() as cursor:
            # Rows that earlier tests deleted would be moved with the table.
            cursor.execute("VACUUM FULL rag_chunk")
            cursor.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
        try:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE rag_chunk SET TABLESPACE small")
            yield disk
        finally:
            disk.free()
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE rag_chunk SET TABLESPACE pg_default")
                cursor.execute("DROP TABLESPACE small")


def test_a_database_without_room_keeps_the_old_revision_and_goes_on_when_there_is(
    small_database: SmallDisk,
) -> None:
    store = filled_store(20)
    found = index_hits(query="pump pressure", scope=OPERATOR, stores=[store]).hits
    file = put(store, "".join(f"Line {n} about pumps of kind {n * 7}.\n\n" for n in range(3000)))
    small_database.fill()
    with pytest.raises(OperationalError) as raised:
        index_file(file_id=file.pk)
    assert is_disk_full(raised.value)
    connection.close()
    file.refresh_from_db()
    assert (file.status, file.n_chunks, live(file)) == ("processing", 0, [])
    again = index_hits(query="pump pressure", scope=OPERATOR, stores=[store]).hits
    assert [hit.chunk_id for hit in again] == [hit.chunk_id for hit in found]
    small_database.free()
    run_job(file)
    file.refresh_from_db()
    assert file.status == "completed" and file.n_chunks > 100

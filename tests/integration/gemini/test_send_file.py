"""Files on their way to Gemini: what happens to rows and documents when something comes between."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.documents import ChunkRule
from rag.core.errors import CancelledError, DocumentError, InvalidInputError, ProviderTimeoutError
from rag.core.file_search import Upload
from rag.services.access.api_keys import scope_of
from rag.services.files.delete import delete_files
from rag.services.files.edit import update_file
from rag.services.files.replace import replace_file
from rag.services.files.upload import upload_document, upload_file
from rag.services.gemini.stores import sync_store
from rag.services.gemini.upload import remote_metadata, upload_to_gemini
from rag.services.ingest.indexing import index_file
from rag.services.operations.recovery import recover_jobs
from rag.services.stores.lifecycle import create_named_store
from tests.edges.admin_client import use_words_embedder
from tests.edges.node_client import use_gemini
from tests.factories import GroupFactory, UserFactory
from tests.fakes.gemini_server import GeminiServer
from tests.fakes.loopback import Call, Reply

pytestmark = pytest.mark.django_db(transaction=True)
OPERATOR = Scope.operator()
STATES = models.File.Status


@pytest.fixture
def server(
    monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> Iterator[GeminiServer]:
    use_words_embedder(monkeypatch, settings)
    with GeminiServer() as server:
        use_gemini(settings, server)
        yield server


@pytest.fixture
def store(server: GeminiServer) -> models.Store:
    return create_named_store(
        scope=scope_of(UserFactory()), display_name="Remote", backend="gemini"
    )


@pytest.fixture
def file(store: models.Store) -> models.File:
    return upload_file(store=store, name="a.txt", content=io.BytesIO(b"The lamp is blue.")).file


def documents(server: GeminiServer, store: models.Store) -> list[str]:
    return list(server.files.stores[store.resource_name].documents)


def while_sending(server: GeminiServer, act: Any) -> None:
    """Call ``act`` once, when the upload's bytes arrive."""
    before, done = server.answer, []

    def answer(call: Call) -> Reply:
        if "x-goog-upload-offset" in call.headers and not done:
            done.append(True)
            act()
        return before(call)

    server.answer = answer  # type: ignore[method-assign]


def test_a_file_is_sent_by_the_worker_and_sent_again_it_replaces_its_document(
    server: GeminiServer, store: models.Store, file: models.File
) -> None:
    assert file.status == STATES.PROCESSING
    index_file(file_id=file.pk)
    file.refresh_from_db()
    first = file.remote_name
    assert documents(server, store) == [first] and file.status == STATES.COMPLETED
    index_file(file_id=file.pk)
    file.refresh_from_db()
    assert documents(server, store) == [file.remote_name] != [first]
    assert file.revision == 2


def test_a_file_deleted_while_it_is_sent_leaves_no_document(
    server: GeminiServer, store: models.Store, file: models.File
) -> None:
    while_sending(server, lambda: raw_delete(file.pk))
    assert upload_to_gemini(file_id=file.pk, deadline=Deadline(10)) is None
    assert documents(server, store) == []
    assert upload_to_gemini(file_id=file.pk, deadline=Deadline(10)) is None


def raw_delete(file_id: int) -> None:

    models.File.objects.filter(pk=file_id).delete()
    connections.close_all()


def test_bytes_replaced_meanwhile_are_sent_by_their_own_job(
    server: GeminiServer, store: models.Store, file: models.File
) -> None:

    def replace() -> None:
        replace_file(
            scope=OPERATOR,
            file=models.File.objects.get(pk=file.pk),
            content=io.BytesIO(b"The lamp is red."),
            changes={},
        )
        connections.close_all()

    while_sending(server, replace)
    index_file(file_id=file.pk)
    file.refresh_from_db()
    assert documents(server, store) == [] and file.status == STATES.PROCESSING
    index_file(file_id=file.pk)
    file.refresh_from_db()
    assert documents(server, store) == [file.remote_name]


def test_two_that_send_a_file_at_once_leave_one_document(
    server: GeminiServer, store: models.Store, file: models.File
) -> None:

    def send_too() -> None:
        index_file(file_id=file.pk)
        connections.close_all()

    while_sending(server, send_too)
    index_file(file_id=file.pk)
    file.refresh_from_db()
    assert documents(server, store) == [file.remote_name] and file.status == STATES.COMPLETED


def test_no_lock_stays_behind(server: GeminiServer, file: models.File) -> None:

    index_file(file_id=file.pk)
    with connection.cursor() as cursor:
        # The server holds the databases of all test processes.
        cursor.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database ="
            " (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        assert cursor.fetchone()[0] == 0


def test_an_upload_whose_process_died_is_brought_back(
    server: GeminiServer, store: models.Store, file: models.File
) -> None:
    ProcrastinateJob.objects.all()._raw_delete("default")
    rows = models.File.objects.filter(pk=file.pk)
    rows.update(status=STATES.UPLOADING, updated_at=timezone.now() - timedelta(seconds=300))
    assert recover_jobs() == 0
    rows.update(updated_at=timezone.now() - timedelta(seconds=700))
    assert recover_jobs() == 1
    file.refresh_from_db()
    assert file.status == STATES.PROCESSING
    index_file(file_id=file.pk)
    assert len(documents(server, store)) == 1


@pytest.mark.parametrize("ending", ["cancelled", "late"])
def test_a_call_that_ends_early_says_so_and_leaves_nothing_there(
    server: GeminiServer, store: models.Store, tmp_path: Path, ending: str
) -> None:
    server.files.modes.operation = "never"
    server.files.modes.document = "pending"
    path = tmp_path / "a.txt"
    path.write_bytes(b"text")
    upload = Upload(path, "a.txt", "", ChunkRule())
    deadline = Deadline(3.0 if ending == "late" else 30.0)
    if ending == "cancelled":
        while_sending(server, deadline.cancel)
    wanted = CancelledError if ending == "cancelled" else ProviderTimeoutError
    with pytest.raises(wanted):
        upload_document(
            scope=OPERATOR, store=store, upload=upload, deadline=deadline, is_waiting=False
        )
    assert documents(server, store) == []
    kept = list(models.File.objects.values_list("status", flat=True))
    # Who went away wants none of it; what failed may be tried again.
    assert kept == ([] if ending == "cancelled" else [STATES.ERROR])


def test_facts_go_along_as_gemini_can_keep_them(file: models.File) -> None:
    file.metadata = {
        "lang": "zh",
        "year": 2025,
        "tags": ["a", 1],
        "is_open": True,
        "more": {"a": 1},
    }
    assert remote_metadata(file) == {
        "citable_file": str(file.pk),
        "content_type": "document",
        "lang": "zh",
        "year": 2025,
        "tags": ["a", "1"],
        "is_open": "true",
        "more": "{'a': 1}",
    }
    file.metadata = {f"key{n}": n for n in range(19)}
    with pytest.raises(DocumentError, match="has 19 keys of metadata. Gemini keeps 17"):
        remote_metadata(file)


def test_a_changed_name_is_sent_anew_and_groups_are_refused(
    server: GeminiServer, store: models.Store, file: models.File
) -> None:
    index_file(file_id=file.pk)
    file.refresh_from_db()
    same = {"content_type": file.content_type, "metadata": file.metadata}
    with pytest.raises(InvalidInputError, match="cannot be restricted"):
        update_file(
            scope=OPERATOR, file=file, name=file.name, restricted_to=[GroupFactory()], **same
        )
    update_file(scope=OPERATOR, file=file, name="b.txt", **same)
    file.refresh_from_db()
    assert file.status == STATES.PROCESSING
    index_file(file_id=file.pk)
    (document,) = server.files.stores[store.resource_name].documents.values()
    assert document.display_name == "b.txt"
    update_file(scope=OPERATOR, file=file, name="b.txt", **same)
    file.refresh_from_db()
    assert file.status == STATES.COMPLETED
    assert delete_files(scope=OPERATOR, file_ids=[file.pk]) == 1
    assert documents(server, store) == []


def test_a_comparison_leaves_a_running_upload_alone(
    server: GeminiServer, store: models.Store, file: models.File
) -> None:
    index_file(file_id=file.pk)
    models.File.objects.update(status=STATES.UPLOADING)
    server.files.stores[store.resource_name].documents.clear()
    assert sync_store(store=store).n_lost == 0
    assert models.File.objects.get().status == STATES.UPLOADING

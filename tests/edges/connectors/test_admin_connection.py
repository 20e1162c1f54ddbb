"""Connections in the admin: choose a connector, fill its form, start syncs and read reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag import models
from rag.services.connectors import run_sync_job
from tests.edges.admin_client import at, client_of, page, use_words_embedder, words
from tests.factories import StoreFactory, UserFactory

pytestmark = pytest.mark.django_db(transaction=True)
PERMISSIONS = ("view_store", "add_connection", "view_connection", "change_connection")


@pytest.fixture(autouse=True)
def words_embedder(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    use_words_embedder(monkeypatch, settings)


def sent(store: models.Store, **values: Any) -> dict[str, Any]:
    plain = {"store": store.pk, "name": "docs", "schedule": "1h", "max_documents": 10}
    return {**plain, "max_minutes": 5, "option_folder": "", "option_link_base": "", **values}


def test_a_folder_is_connected_synced_and_reported(tmp_path: Path, settings: Any) -> None:
    (tmp_path / "a.txt").write_text("The pump stops.")
    settings.RAG = settings.RAG | {"SYNC_FOLDERS": (str(tmp_path),)}
    editor = UserFactory(permissions=PERMISSIONS)
    store = StoreFactory(owner=editor)
    client = client_of(editor)
    assert "Website" in words(page(client, "rag_connection_add"))
    address = at("rag_connection_add", connector="folder")
    assert "Path of a folder on the server" in words(
        page(client, "rag_connection_add", connector="folder")
    )
    refused = client.post(address, sent(store, option_link_base="ftp://x", option_folder="/x"))
    assert "is no web address" in words(refused.content.decode())
    made = client.post(address, sent(store, option_folder=str(tmp_path)))
    connection = models.Connection.objects.get()
    assert made["Location"] == at("rag_connection_change", connection.pk)
    assert connection.options["folder"] == str(tmp_path) and connection.next_run_at is not None
    assert "Stop the sync" in words(page(client, "rag_connection_change", connection.pk))
    assert client.get(at("rag_connection_progress", connection.pk)).json()["is_busy"] is True
    run = connection.runs.get()
    run_sync_job(run_id=run.pk)
    told = words(page(client, "rag_connection_change", connection.pk))
    assert "new a.txt" in told and "1 new" in told and "Stop the sync" not in told
    assert "1 new" in words(page(client, "rag_connection_changelist"))
    (tmp_path / "a.txt").unlink()
    client.post(at("rag_connection_sync", connection.pk))
    run_sync_job(run_id=connection.runs.latest("pk").pk)
    told = words(page(client, "rag_connection_change", connection.pk))
    assert "1 of 1 files are missing" in told and "Sync by force" in told
    client.post(at("rag_connection_sync", connection.pk), {"dry_run": "1"})
    run_sync_job(run_id=connection.runs.latest("pk").pk)
    assert "nothing was changed" in words(page(client, "rag_connection_change", connection.pk))
    client.post(at("rag_connection_sync", connection.pk), {"force": "1"})
    stopped = client.post(at("rag_connection_progress", connection.pk))
    assert (stopped.status_code, connection.runs.latest("pk").state) == (302, "cancelled")
    assert store.files.count() == 1


def test_strangers_see_and_start_nothing(tmp_path: Path) -> None:
    connection = models.Connection.objects.create(
        store=StoreFactory(is_public=True),
        name="docs",
        connector="folder",
        options={"folder": "/x"},
    )
    client = client_of(UserFactory(permissions=PERMISSIONS))
    assert "docs" not in words(page(client, "rag_connection_changelist"))
    assert client.post(at("rag_connection_sync", connection.pk)).status_code == 403
    assert client.get(at("rag_connection_progress", connection.pk)).status_code == 404
    assert connection.runs.count() == 0
    reader = client_of(UserFactory(permissions=("view_connection",)))
    assert reader.get(at("rag_connection_add")).status_code == 403

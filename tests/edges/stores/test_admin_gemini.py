"""Stores at Gemini in the admin and by the command: made, filled, compared, deleted; their faults."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import Client

from rag import models
from rag.services.ingest.indexing import index_file
from tests.edges.admin_client import at, client_of, page, post_action, use_words_embedder, words
from tests.edges.node_client import KEY, use_gemini
from tests.factories import StoreFactory, UserFactory, upload
from tests.fakes.gemini_server import GeminiServer
from tests.fakes.loopback import Call, Fault, Reply

# What happens at Gemini must not happen in a transaction: these tests have none of their own.
pytestmark = pytest.mark.django_db(transaction=True)


class Watched(GeminiServer):
    """A Gemini that notes whether it was called while a transaction was open."""

    in_transaction: list[str]

    def answer(self, call: Call) -> Reply:
        if main_connection.in_atomic_block:
            self.in_transaction.append(call.path)
        return super().answer(call)


main_connection: Any = None


@pytest.fixture
def server(settings: Any) -> Iterator[GeminiServer]:
    global main_connection
    # Asked from the server's threads, ``connection`` would be theirs.
    main_connection = connections["default"]
    with Watched() as server:
        server.in_transaction = []
        yield server
        assert server.in_transaction == []


@pytest.fixture(autouse=True)
def _gemini(
    monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None, server: GeminiServer
) -> None:
    use_words_embedder(monkeypatch, settings)
    use_gemini(settings, server)


@pytest.fixture
def boss() -> User:
    return UserFactory(is_superuser=True)


@pytest.fixture
def client(boss: User) -> Client:
    return client_of(boss)


def add(client: Client, **values: Any) -> Any:
    form = {
        "name": "Remote",
        "slug": "",
        "display_name": "",
        "backend": "gemini",
        "max_tokens_per_chunk": "200",
        "max_overlap_tokens": "20",
        "vocabulary": "{}",
        "cache_ttl_s": "3600",
        "owner": "",
        **values,
    }
    return client.post(at("rag_store_add"), form, follow=True)


def filled(client: Client, name: str = "guide.txt", text: bytes = b"The lamp is blue.") -> Any:
    """Return a store at Gemini with a file that a worker has sent."""
    store = models.Store.objects.filter(backend="gemini").first()
    if store is None:
        add(client)
        store = models.Store.objects.get(backend="gemini")
    response = client.post(at("rag_store_upload", store.pk), {"files": upload(name, text)})
    assert response.status_code == 200
    file = models.File.objects.get(name=name)
    index_file(file_id=file.pk)
    file.refresh_from_db()
    return file


def test_a_store_is_made_there_by_the_form(
    client: Client, server: GeminiServer, boss: User
) -> None:
    assert "Gemini File Search" in page(client, "rag_store_add")
    response = add(client, display_name="产品 手册")
    assert response.status_code == 200
    store = models.Store.objects.get()
    assert (store.backend, store.owner, store.space) == ("gemini", boss, None)
    assert [one.display_name for one in server.files.stores.values()] == ["产品 手册"]
    said = words(page(client, "rag_store_change", store.pk))
    assert "Gemini File Search" in said and "not compared yet" in said


def test_what_gemini_refuses_is_said_and_leaves_no_row(
    client: Client, server: GeminiServer, settings: Any
) -> None:
    server.fail(Fault(400, {"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}))
    assert "Gemini" in words(add(client).content.decode())
    settings.RAG = {**settings.RAG, "GEMINI_API_KEY": ""}
    assert "No key for Gemini is set" in words(add(client).content.decode())
    assert not models.Store.objects.exists() and not server.files.stores
    settings.RAG = {**settings.RAG, "GEMINI_API_KEY": KEY}
    assert "This field is required" in words(add(client, name="").content.decode())
    StoreFactory(name="Taken")
    assert "already exists" in words(add(client, name="Taken").content.decode())
    assert not server.files.stores


def test_a_row_that_cannot_be_saved_takes_the_store_there_back(
    server: GeminiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rag.core.errors import ConflictError
    from rag.services.stores.lifecycle import create_store

    monkeypatch.setattr(models.Store.objects, "filter", models.Store.objects.none().filter)
    StoreFactory(name="Twin", slug="twin")
    with pytest.raises(ConflictError):
        create_store(name="Twin", slug="twin", backend="gemini")
    assert not server.files.stores
    assert any(call.method == "DELETE" for call in server.calls)


def test_files_are_uploaded_and_their_state_is_shown(client: Client, server: GeminiServer) -> None:
    file = filled(client)
    assert file.status == "completed" and file.remote_name
    said = words(page(client, "rag_file_changelist"))
    assert "guide.txt" in said and "completed" in said
    store = file.store
    said = words(page(client, "rag_store_search", store.pk, q="lamp"))
    assert "is kept at Gemini" in said


def test_a_comparison_brings_counts_and_lost_documents(
    client: Client, server: GeminiServer
) -> None:
    file, other = filled(client), filled(client, "b.txt", b"The lamp is red.")
    store = file.store
    remote = server.files.stores[store.resource_name]
    remote.documents.pop(file.remote_name)
    response = post_action(client, "store", "sync", [store.pk])
    assert "1 store was compared." in words(response.content.decode())
    store.refresh_from_db()
    assert (store.remote["active"], store.remote["lost"]) == (1, 1)
    assert store.synced_at is not None
    file.refresh_from_db()
    other.refresh_from_db()
    assert (file.status, other.status) == ("error", "completed")
    assert "no longer at Gemini" in words(page(client, "rag_file_changelist"))
    said = words(page(client, "rag_store_changelist"))
    assert "1 documents found" in said and "1 gone" in said
    # Indexed again it is sent again.
    post_action(client, "file", "retry", [file.pk], confirmed="yes")
    index_file(file_id=file.pk)
    post_action(client, "store", "sync", [store.pk])
    store.refresh_from_db()
    assert (store.remote["active"], store.remote["lost"]) == (2, 0)


def test_a_store_gone_there_is_said_on_the_row(client: Client, server: GeminiServer) -> None:
    store = filled(client).store
    server.files.stores.clear()
    response = post_action(client, "store", "sync", [store.pk])
    assert "0 stores were compared." in words(response.content.decode())
    store.refresh_from_db()
    assert store.remote["is_gone"] and store.remote["error"]["message"]


def test_a_failed_deletion_keeps_the_row_with_the_reason(
    client: Client, server: GeminiServer
) -> None:
    file = filled(client)
    store = file.store
    refusal = {"error": {"code": 403, "message": "not yours", "status": "PERMISSION_DENIED"}}
    for name, pk in (("rag_store", store.pk), ("rag_file", file.pk)):
        server.fail(Fault(403, refusal, on="DELETE"))
        response = client.post(at(f"{name}_delete", pk), {"post": "yes"}, follow=True)
        assert "did not accept the key (HTTP 403)" in words(response.content.decode())
    store.refresh_from_db()
    file.refresh_from_db()
    assert "HTTP {status}" in str(store.remote["error"]) and "HTTP {status}" in str(file.error)
    assert "not yours" not in f"{store.remote}{file.error}"
    assert server.files.stores[store.resource_name].documents
    client.post(at("rag_file_delete", file.pk), {"post": "yes"})
    assert not models.File.objects.exists()
    assert not server.files.stores[store.resource_name].documents
    client.post(at("rag_store_delete", store.pk), {"post": "yes"})
    assert not models.Store.objects.exists() and not server.files.stores


def test_chosen_rows_are_deleted_there_too(client: Client, server: GeminiServer) -> None:
    store = filled(client).store
    response = post_action(client, "store", "delete_selected", [store.pk], post="yes")
    assert response.status_code == 200
    assert not models.Store.objects.exists() and not server.files.stores


def test_who_may_not_edit_neither_compares_nor_deletes(
    client: Client, server: GeminiServer
) -> None:
    store = filled(client).store
    models.Store.objects.update(is_public=True, owner=None)
    reader = client_of(UserFactory(permissions=["view_store", "change_store", "delete_store"]))
    n = len(server.calls)
    post_action(reader, "store", "sync", [store.pk])
    assert reader.post(at("rag_store_delete", store.pk), {"post": "yes"}).status_code == 403
    assert (
        client_of(UserFactory()).post(at("rag_store_add"), {"backend": "gemini"}).status_code == 403
    )
    assert len(server.calls) == n


def test_the_command_compares_lists_and_forgets(client: Client, server: GeminiServer) -> None:
    store = filled(client).store
    out = io.StringIO()
    call_command("rag_gemini_sync", stdout=out)
    assert out.getvalue() == f"{store.slug}: 1 active, 0 pending, 0 failed\n"
    server.files.stores[store.resource_name].documents.clear()
    out = io.StringIO()
    call_command("rag_gemini_sync", "--store", store.slug, stdout=out)
    assert "0 active" in out.getvalue() and "1 files are no longer there" in out.getvalue()
    from rag.services.gemini.stores import gemini_file_search

    foreign = gemini_file_search().create_store("Foreign").name
    out = io.StringIO()
    call_command("rag_gemini_sync", "--list", stdout=out)
    assert f"not ours: {foreign} (Foreign)" in out.getvalue()
    server.key = "another"
    err = io.StringIO()
    with pytest.raises(CommandError, match="2 failed"):
        call_command("rag_gemini_sync", "--list", stderr=err)
    assert "GEMINI_API_KEY" in err.getvalue() and KEY not in err.getvalue()
    with pytest.raises(CommandError, match="named stores"):
        call_command("rag_gemini_sync", "--forget")
    with pytest.raises(CommandError, match="is local"):
        call_command("rag_gemini_sync", "--store", StoreFactory().slug)
    call_command("rag_gemini_sync", "--forget", "--store", store.slug, stdout=out)
    assert not models.Store.objects.filter(pk=store.pk).exists()
    assert store.resource_name in server.files.stores

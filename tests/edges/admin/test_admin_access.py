"""Access in the admin: model permissions decide what, the Scope decides which rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.services.files.requeue import requeue_files
from tests.edges.admin_client import at, client_of, page, post_action, use_words_embedder, words
from tests.factories import (
    EDITOR,
    FileFactory,
    GroupFactory,
    QueryLogFactory,
    StoreFactory,
    UserFactory,
    publish,
    upload,
)

pytestmark = pytest.mark.django_db
LISTS = ("store", "file", "chunk", "chunkrevision", "querylog", "embeddingspace")


@dataclass
class World:
    """One store with one file and one chunk, and the people around it."""

    editors: Group
    readers: Group
    store: models.Store
    file: models.File
    chunk: models.Chunk

    def person(self, *groups: Group, permissions: tuple[str, ...] = EDITOR) -> User:
        user: User = UserFactory(groups=groups, permissions=permissions)
        return user

    def pages(self) -> list[str]:
        """Return every address that shows something of the store."""
        revision = self.chunk.revisions.get()
        log = models.QueryLog.objects.get(query="secret question")
        job = ProcrastinateJob.objects.get(lock=f"file:{self.file.pk}")
        return [
            at("rag_store_change", self.store.pk),
            at("rag_store_delete", self.store.pk),
            at("rag_store_history", self.store.pk),
            at("rag_store_search", self.store.pk, q="quasar", mode="keyword"),
            at("rag_store_upload", self.store.pk),
            at("rag_file_change", self.file.pk),
            at("rag_file_delete", self.file.pk),
            at("rag_file_history", self.file.pk),
            at("rag_file_text", self.file.pk),
            at("rag_file_original", self.file.pk),
            at("rag_chunk_change", self.chunk.pk),
            at("rag_chunk_history", self.chunk.pk),
            at("rag_chunkrevision_change", revision.pk),
            at("rag_querylog_change", log.pk),
            at("rag_embeddingspace_change", self.store.space_id),
            at("procrastinate_procrastinatejob_change", job.pk),
        ]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, settings: Any) -> World:
    use_words_embedder(monkeypatch, settings)
    editors, readers = GroupFactory(), GroupFactory()
    store = StoreFactory(name="secret store", editors=[editors], readers=[readers])
    file = FileFactory(store=store, name="secret file.txt")
    chunk = publish(file, "a secret quasar")[0]
    models.ChunkRevision.objects.create(
        chunk=chunk, revision=1, text="a secret before", char_start=0, char_end=5, file_revision=1
    )
    QueryLogFactory(query="secret question", store_ids=[store.pk])
    requeue_files(store=store)
    return World(editors, readers, store, file, chunk)


def test_somebody_unknown_is_sent_to_the_login(world: World) -> None:
    for address in [*world.pages(), at("index"), at("rag_file_progress", ids=world.file.pk)]:
        response = client_of().get(address)
        assert response.status_code == 302, address
        assert "/login/" in response["Location"]


def test_a_person_without_model_permissions_sees_nothing(world: World) -> None:
    client = client_of(world.person(world.editors, permissions=()))
    for address in world.pages():
        assert client.get(address).status_code in (302, 403), address
    for model in LISTS:
        assert client.get(at(f"rag_{model}_changelist")).status_code == 403, model
    assert "secret" not in page(client, "index")
    assert client.get(at("rag_file_progress", ids=world.file.pk)).status_code == 403


def test_a_stranger_with_all_permissions_sees_nothing_of_the_store(world: World) -> None:
    client = client_of(world.person())
    for model in LISTS:
        assert "secret" not in page(client, f"rag_{model}_changelist"), model
    for address in world.pages():
        response = client.get(address)
        # The admin sends one who asks for an unknown row to its first page.
        assert response.status_code == 404 or response["Location"] == at("index"), address
    assert "secret" not in page(client, "index")
    job = ProcrastinateJob.objects.get(lock=f"file:{world.file.pk}")
    jobs = page(client, "procrastinate_procrastinatejob_changelist")
    assert at("procrastinate_procrastinatejob_change", job.pk) not in jobs


def test_a_stranger_finds_nothing_by_search_filter_autocomplete_or_progress(world: World) -> None:
    client = client_of(world.person())
    for model in ("store", "file", "chunk", "querylog"):
        assert "secret" not in words(page(client, f"rag_{model}_changelist", q="secret")), model
    for query in (
        {"store": world.store.pk},
        {"file": world.file.pk},
        {"store": "x"},
        {"file": "²"},
    ):
        assert "secret" not in page(client, "rag_chunk_changelist", **query)
    assert "secret" not in page(client, "rag_file_changelist", store=world.store.pk)
    progress = client.get(at("rag_file_progress", ids=world.file.pk))
    assert progress.json() == {"files": []}
    for model, field in (("chunk", "store"), ("chunk", "file"), ("file", "store")):
        query = {"app_label": "rag", "model_name": model, "field_name": field, "term": "secret"}
        found = client.get(at("autocomplete"), query)
        assert found.json()["results"] == [], (model, field)


def test_a_stranger_can_change_nothing(world: World) -> None:
    client = client_of(world.person())
    response = client.post(at("rag_store_upload", world.store.pk), {"files": upload("a.txt", b"a")})
    assert response.status_code == 404
    post_action(client, "file", "delete_selected", [world.file.pk], post="yes")
    post_action(client, "file", "retry", [world.file.pk], confirmed="yes")
    post_action(client, "chunk", "disable", [world.chunk.pk])
    post_action(client, "store", "delete_selected", [world.store.pk], post="yes")
    client.post(at("rag_store_delete", world.store.pk), {"post": "yes"})
    client.post(at("rag_file_change", world.file.pk), {"name": "mine", "metadata": "{}"})
    world.file.refresh_from_db()
    world.chunk.refresh_from_db()
    assert world.file.name == "secret file.txt"
    assert world.chunk.enabled
    assert world.store.files.count() == 1


def test_a_reader_reads_and_changes_nothing(world: World) -> None:
    client = client_of(world.person(world.readers))
    for model in ("store", "file", "chunk", "chunkrevision"):
        assert "secret" in page(client, f"rag_{model}_changelist"), model
    assert "quasar" in page(client, "rag_store_search", world.store.pk, q="quasar", mode="keyword")
    assert 'name="_save"' not in page(client, "rag_store_change", world.store.pk)
    assert client.get(at("rag_store_delete", world.store.pk)).status_code == 403
    response = client.post(at("rag_store_upload", world.store.pk), {"files": upload("a.txt", b"a")})
    assert response.status_code == 403
    for model, row in (("store", world.store), ("file", world.file), ("chunk", world.chunk)):
        response = client.post(at(f"rag_{model}_change", row.pk), {"name": "mine"})
        assert response.status_code == 403, model
    for model, row in (("store", world.store), ("file", world.file)):
        post_action(client, model, "delete_selected", [row.pk], post="yes")
        assert type(row).objects.filter(pk=row.pk).exists(), model
    response = post_action(client, "chunk", "disable", [world.chunk.pk])
    assert "0 chunks were switched off." in response.content.decode()
    assert models.Chunk.objects.get(pk=world.chunk.pk).enabled


def test_an_editor_sees_and_changes_only_own_stores(world: World) -> None:
    other = FileFactory(store=StoreFactory(name="foreign store"), name="foreign file.txt")
    client = client_of(world.person(world.editors))
    for model in ("store", "file"):
        shown = page(client, f"rag_{model}_changelist")
        assert "secret" in shown
        assert "foreign" not in shown
    post_action(client, "file", "delete_selected", [world.file.pk, other.pk], post="yes")
    assert not models.File.objects.filter(pk=world.file.pk).exists()
    assert models.File.objects.filter(pk=other.pk).exists()


def test_an_editor_needs_the_model_permission_too(world: World) -> None:
    permissions = tuple(set(EDITOR) - {"add_file", "change_chunk", "delete_file"})
    client = client_of(world.person(world.editors, permissions=permissions))
    assert client.get(at("rag_store_upload", world.store.pk)).status_code == 403
    assert client.get(at("rag_file_delete", world.file.pk)).status_code == 403
    post_action(client, "chunk", "disable", [world.chunk.pk])
    assert models.Chunk.objects.get(pk=world.chunk.pk).enabled


def test_a_restricted_file_is_hidden_from_the_other_readers(world: World) -> None:
    inner = GroupFactory()
    world.file.restricted_to.add(inner)
    outside = client_of(world.person(world.readers))
    inside = client_of(world.person(world.readers, inner))
    assert "secret file" not in page(outside, "rag_file_changelist")
    assert "quasar" not in page(outside, "rag_chunk_changelist")
    assert outside.get(at("rag_file_original", world.file.pk)).status_code == 404
    query = {"q": "quasar", "mode": "keyword"}
    assert "secret file" not in page(outside, "rag_store_search", world.store.pk, **query)
    assert "secret file" in page(inside, "rag_file_changelist")
    assert "secret file" in page(inside, "rag_store_search", world.store.pk, **query)


def test_the_query_log_shows_own_questions_and_those_to_own_stores(world: World) -> None:
    reader = world.person(world.readers)
    QueryLogFactory(query="my own", store_ids=[world.store.pk], user=reader)
    shown = page(client_of(reader), "rag_querylog_changelist")
    assert "my own" in shown
    assert "secret question" not in shown
    shown = page(client_of(world.person(world.editors)), "rag_querylog_changelist")
    assert "my own" in shown
    assert "secret question" in shown
    world.store.reader_groups.clear()
    assert "my own" not in page(client_of(reader), "rag_querylog_changelist")


def test_a_superuser_sees_everything(world: World) -> None:
    client = client_of(UserFactory(is_superuser=True))
    for address in world.pages():
        assert client.get(address).status_code == 200, address
    for model in LISTS:
        page(client, f"rag_{model}_changelist")


def test_nobody_writes_what_only_the_product_writes(world: World) -> None:
    client = client_of(UserFactory(is_superuser=True))
    models_read_only = [f"rag_{m}" for m in ("chunkrevision", "querylog", "embeddingspace")]
    for model in [*models_read_only, "procrastinate_procrastinatejob"]:
        assert client.get(at(f"{model}_add")).status_code == 403, model
    assert client.get(at("rag_file_add")).status_code == 403
    assert client.get(at("rag_chunk_add")).status_code == 403


def groups_offered(client: Client, store: models.Store) -> set[str]:
    form = client.get(at("rag_store_change", store.pk)).context["adminform"].form
    return {group.name for group in form.fields["reader_groups"].queryset}


def test_an_editor_chooses_from_own_groups_and_keeps_the_others(world: World) -> None:
    GroupFactory(name="elsewhere")
    client = client_of(world.person(world.editors))
    assert groups_offered(client, world.store) == {world.editors.name, world.readers.name}
    data = {
        "name": "secret store",
        "slug": "secret",
        "max_tokens_per_chunk": 200,
        "max_overlap_tokens": 20,
        "reader_groups": [world.readers.pk],
        "editor_groups": [world.editors.pk],
    }
    response = client.post(at("rag_store_change", world.store.pk), data)
    assert response.status_code == 302, response.context["errors"]
    assert list(world.store.reader_groups.all()) == [world.readers]


def test_a_helper_of_accounts_cannot_raise_rights(world: World) -> None:
    boss = UserFactory(is_superuser=True, username="boss")
    helper = world.person(permissions=("view_user", "change_user", "delete_user", "view_group"))
    client = client_of(helper)
    data = {
        "username": helper.username,
        "is_superuser": "on",
        "is_staff": "on",
        "is_active": "on",
        "groups": [world.editors.pk],
    }
    client.post(at("auth_user_change", helper.pk), data)
    helper.refresh_from_db()
    assert not helper.is_superuser
    assert not helper.groups.exists()
    assert client.post(at("auth_user_change", boss.pk), data).status_code == 403
    assert client.get(at("auth_user_delete", boss.pk)).status_code == 403
    assert client.get(at("auth_user_password_change", boss.pk)).status_code == 403
    assert client.get(at("auth_group_add")).status_code == 403


def test_a_group_that_restricts_files_cannot_be_deleted(world: World) -> None:
    inner = GroupFactory()
    world.file.restricted_to.add(inner)
    client = client_of(UserFactory(is_superuser=True))
    shown = client.post(at("auth_group_delete", inner.pk), {"post": "yes"}).content.decode()
    assert "restricts 1 file" in shown
    assert Group.objects.filter(pk=inner.pk).exists()
    world.file.restricted_to.clear()
    client.post(at("auth_group_delete", inner.pk), {"post": "yes"})
    assert not Group.objects.filter(pk=inner.pk).exists()


def test_who_opens_the_login_page_itself_is_led_to_the_desk() -> None:
    user = UserFactory(is_staff=True)
    user.set_password("right")
    user.save()
    values = {"username": user.get_username(), "password": "right"}
    response = Client().post("/admin/login/", values)
    assert (response.status_code, response["Location"]) == (302, "/admin/")

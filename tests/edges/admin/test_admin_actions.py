"""Admin actions: confirmation first, and only rows within the edit scope are changed."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.test import Client

from rag import models
from rag.admin.ui.action_confirmation import duration_sentence
from rag.core.access import Scope
from rag.core.errors import ForbiddenError
from rag.services.access.api_keys import scope_of
from rag.services.files.edit import move_files
from rag.services.files.upload import upload_file
from rag.services.search.retrieval import retrieve
from tests.edges.admin_client import (
    client_of,
    page,
    post_action,
    streamed,
    use_words_embedder,
    words,
)
from tests.factories import EDITOR, FileFactory, GroupFactory, StoreFactory, UserFactory, publish
from tests.fakes.model_plugins import let_be_remote
from tests.index_hits import index_hits

pytestmark = pytest.mark.django_db
OPERATOR = Scope.operator()
YES = {"confirmed": "yes"}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> models.Store:
    use_words_embedder(monkeypatch, settings)
    return StoreFactory(owner=UserFactory(permissions=EDITOR))  # type: ignore[no-any-return]


@pytest.fixture
def client(store: models.Store) -> Client:
    assert store.owner is not None
    return client_of(store.owner)


def filed(store: models.Store, name: str, *texts: str) -> models.File:
    content = ContentFile(name.encode() * 3, name=f"{store.pk}-{name}")
    file = FileFactory(store=store, name=name, content=content)
    publish(file, *texts)
    assert isinstance(file, models.File)
    return file


def found(store: models.Store, query: str) -> list[str]:
    return [hit.text for hit in index_hits(query=query, scope=OPERATOR, stores=[store]).hits]


def test_chunks_of_files_are_switched_after_a_yes(store: models.Store, client: Client) -> None:
    file = filed(store, "<b>a</b>.txt", "the pump", "the valve")
    asked = post_action(client, "file", "disable", [file.pk])
    said = words(asked.content.decode())
    assert "No chunk of the files is found any more" in said
    assert "about 1 file with 2 chunks" in said
    assert "<b>a</b>" not in asked.content.decode()
    assert found(store, "pump")
    done = post_action(client, "file", "disable", [file.pk], **YES)
    assert "2 chunks were switched off." in words(done.content.decode())
    assert found(store, "pump") == []
    post_action(client, "file", "enable", [file.pk], **YES)
    assert found(store, "pump")


def test_a_page_says_how_long_it_takes(
    store: models.Store, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_be_remote(monkeypatch, "embedding", "words")
    file = filed(store, "a.txt", "the pump")
    said = words(post_action(client, "file", "vectors", [file.pk]).content.decode())
    assert "every chunk gets a new vector" in said
    assert "How long it takes depends on the model's service." in said
    post_action(client, "file", "vectors", [file.pk], **YES)
    file.refresh_from_db()
    assert file.status == "processing"
    assert [duration_sentence(s) for s in (0.1, 30, 600, 7200)] == [
        "It takes about 1 second.",
        "It takes about 30 seconds.",
        "It takes about 10 minutes.",
        "It takes about 2 hours.",
    ]
    assert "depends" in duration_sentence(None)


def test_files_are_moved_with_what_is_said_of_them(store: models.Store, client: Client) -> None:
    target, group = StoreFactory(owner=store.owner), GroupFactory()
    taken = upload_file(store=store, name="a.txt", content=io.BytesIO(b"the pump stops"))
    file = taken.file
    models.File.objects.filter(pk=file.pk).update(metadata={"lang": "en"}, content_type="manual")
    file.restricted_to.add(group)
    file.refresh_from_db()
    publish(file, "the pump stops")
    models.Chunk.objects.filter(file=file).update(enabled=False)
    said = words(post_action(client, "file", "move", [file.pk]).content.decode())
    assert "1 chunk that was edited, added or switched off does not go along" in said
    assert models.File.objects.get().store == store
    done = post_action(client, "file", "move", [file.pk], target=target.pk, **YES)
    assert "1 file was moved." in words(done.content.decode())
    moved = models.File.objects.get()
    assert (moved.store, moved.name, moved.status) == (target, "a.txt", "processing")
    assert (moved.metadata, moved.content_type) == ({"lang": "en"}, "manual")
    assert list(moved.restricted_to.all()) == [group]
    assert moved.content.open("rb").read() == b"the pump stops"


def test_a_file_that_is_there_already_or_whose_bytes_are_gone(store: models.Store) -> None:
    target = StoreFactory(owner=store.owner)
    one = upload_file(store=store, name="a.txt", content=io.BytesIO(b"the same")).file
    upload_file(store=target, name="b.txt", content=io.BytesIO(b"the same"))
    lost = filed(store, "lost.txt", "text")
    lost.content.storage.delete(lost.content.name)
    told = move_files(scope=OPERATOR, file_ids=[one.pk, lost.pk], target=target)
    assert (told.n_moved, told.n_known) == (1, 1)
    assert [(name, "missing" in str(error)) for name, error in told.problems] == [
        ("lost.txt", True)
    ]
    assert {file.name for file in models.File.objects.all()} == {"b.txt", "lost.txt"}


def test_nobody_moves_into_or_out_of_foreign_stores(store: models.Store, client: Client) -> None:
    foreign = StoreFactory(is_public=True)
    theirs, mine = filed(foreign, "theirs.txt", "x"), filed(store, "mine.txt", "y")
    assert foreign.name not in words(
        post_action(client, "file", "move", [mine.pk]).content.decode()
    ).replace("theirs", "")
    post_action(client, "file", "move", [mine.pk], target=foreign.pk, **YES)
    post_action(client, "file", "move", [theirs.pk], target=store.pk, **YES)
    for action in ("disable", "vectors", "retry"):
        post_action(client, "file", action, [theirs.pk], **YES)
    theirs.refresh_from_db()
    assert (theirs.store, theirs.status) == (foreign, "completed")
    assert found(foreign, "x")
    assert store.owner is not None
    with pytest.raises(ForbiddenError):
        move_files(scope=scope_of(store.owner), file_ids=[mine.pk], target=foreign)


def test_chunks_are_exported_as_lines_of_json(store: models.Store, client: Client) -> None:
    file = filed(store, "a.txt", "one", "二")
    models.Chunk.objects.filter(text="one").update(enabled=False)
    response = post_action(client, "file", "export", [file.pk])
    rows = [json.loads(line) for line in streamed(response).splitlines()]
    assert [(row["text"], row["enabled"], row["file_name"]) for row in rows] == [
        ("one", False, "a.txt"),
        ("二", True, "a.txt"),
    ]


def test_all_rows_of_a_list_are_chosen_by_its_filter(store: models.Store, client: Client) -> None:
    for n in range(3):
        filed(store, f"f{n}.txt", "words")
    first = models.File.objects.order_by("pk").first()
    assert first is not None
    across = {"select_across": "1"}
    asked = post_action(client, "file", "disable", [first.pk], **across)
    assert "about 3 files with 3 chunks" in words(asked.content.decode())
    assert 'name="select_across" value="1"' in asked.content.decode()
    post_action(client, "file", "disable", [first.pk], **across, **YES)
    assert not models.Chunk.objects.filter(enabled=True).exists()


def test_a_store_s_page_tells_its_health_and_takes_files(
    store: models.Store, client: Client
) -> None:
    filed(store, "good.txt", "words")
    said = words(page(client, "rag_store_change", store.pk))
    assert "healthy" in said
    FileFactory(store=store, status="error")
    FileFactory(store=store, warnings=["page 3 has no text layer"])
    retrieve(query="words", scope=OPERATOR, stores=[store])
    shown = page(client, "rag_store_change", store.pk)
    said = words(shown)
    for part in ("1 failed", "1 with warnings", "Size of the originals", "Last queries"):
        assert part in said
    assert 'id="desk-upload"' in shown
    readers = GroupFactory()
    store.reader_groups.add(readers)
    reader = client_of(UserFactory(groups=[readers], permissions=EDITOR))
    shown = page(reader, "rag_store_change", store.pk)
    assert 'id="desk-upload"' not in shown
    assert "Last queries" not in words(shown)

"""A store's chunking template: kept, changed without downtime, edits stay, a file may differ."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from rag import models
from rag.core.errors import UnknownNameError
from rag.services.chunks.edit import edit_chunk
from rag.services.files import set_splitter
from rag.services.reindex import rechunk_store, run_reindex
from rag.services.stores import create_store, update_store
from tests.edges.admin_client import at, client_of, page, words
from tests.edges.api_client import client_for, ok
from tests.factories import EDITOR, StoreFactory, UserFactory
from tests.integration.chunk_desk import OPERATOR, watch_words
from tests.integration.index_desk import live, put, run_job

pytestmark = pytest.mark.django_db
LAW = "\n".join(f"第{n}条 水泵{n}号每年检修一次。" for n in "一二三四五六")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> models.Store:
    store = StoreFactory(owner=UserFactory(permissions=EDITOR), max_tokens_per_chunk=200)
    watch_words(store, monkeypatch)
    return store


def rechunk(store: models.Store) -> int:
    n_files = rechunk_store(scope=OPERATOR, store=store)
    run_reindex(run_id=models.ReindexRun.objects.latest("pk").pk)
    for file in store.files.all():
        run_job(file)
    return n_files


def test_another_template_cuts_all_files_anew_and_edits_stay(store: models.Store) -> None:
    file, own = put(store, LAW), put(store, LAW + "\n附则。", name="own.txt")
    run_job(file)
    set_splitter(scope=OPERATOR, file=own, splitter="sentences")
    run_job(own)
    (whole,) = live(file)
    update_store(scope=OPERATOR, store=store, values={"splitter": "laws"})
    assert [chunk.pk for chunk in live(file)] == [whole.pk]
    assert rechunk(store) == 1
    articles = live(file)
    assert [chunk.text[:3] for chunk in articles] == [f"第{n}条" for n in "一二三四五六"]
    assert len(live(own)) == 1
    edit_chunk(
        scope=OPERATOR,
        chunk_id=articles[2].pk,
        text="第三条 另有规定。",
        by=store.owner,
        expected_revision=1,
    )
    update_store(scope=OPERATOR, store=store, values={"splitter": "parent_child"})
    rechunk(store)
    kept = models.Chunk.objects.live().get(pk=articles[2].pk)
    assert (kept.text, kept.parent_start) == ("第三条 另有规定。", None)
    others = [chunk for chunk in live(file) if chunk.pk != kept.pk]
    assert len(others) == 2 and all(chunk.parent_start is not None for chunk in others)


def test_a_template_that_nobody_knows_is_refused(store: models.Store) -> None:
    with pytest.raises(UnknownNameError, match="Known: book, code, laws"):
        update_store(scope=OPERATOR, store=store, values={"splitter": "chapters"})
    with pytest.raises(UnknownNameError):
        create_store(name="x", splitter="chapters")
    with pytest.raises(UnknownNameError):
        set_splitter(scope=OPERATOR, file=put(store, LAW), splitter="chapters")


def test_the_api_previews_a_template_and_tells_how_many_files_it_cuts(
    store: models.Store,
) -> None:
    file, other = put(store, LAW), put(store, LAW + "\n附则。", name="b.txt")
    run_job(file)
    run_job(other)
    client = client_for(store.owner)
    address = f"/api/files/{file.pk}/preview"
    made = ok(client.get(address, {"splitter": "laws", "limit": 2}))
    assert [chunk["text"][:3] for chunk in made["chunks"]] == ["第一条", "第二条"]
    assert (made["n_today"], made["n_chunks"], made["splitter"]) == (1, 6, "laws")
    assert ok(client.get(address))["n_chunks"] == 1
    assert client.get(address, {"splitter": "chapters"}).status_code == 400
    assert client.get(address, {"max_tokens_per_chunk": 5}).status_code == 400
    assert [chunk.text for chunk in live(file)] == [LAW]
    changed = ok(client.send("patch", f"/api/stores/{store.pk}", {"splitter": "laws"}))
    assert (changed["splitter"], changed["files_queued"]) == ("laws", 2)
    assert (
        ok(client.send("patch", f"/api/stores/{store.pk}", {"name": "Laws"}))["files_queued"] == 0
    )


def test_the_form_says_what_each_does_and_how_many_files_it_cuts(store: models.Store) -> None:
    run_job(put(store, LAW))
    client: Client = client_of(store.owner)
    shown = words(page(client, "rag_store_change", store.pk))
    assert "Laws and regulations One article a chunk: 第…条, Article 5, § 5." in shown
    assert "Default of the installation: General text" in shown
    form: Any = client.get(at("rag_store_change", store.pk)).context["adminform"].form
    values = {name: value for name, value in form.initial.items() if value not in (None, [])}
    answer = client.post(
        at("rag_store_change", store.pk), {**values, "splitter": "laws"}, follow=True
    )
    text = words(answer.content.decode())
    assert "1 file is cut anew by the queue" in text, text[:2000]
    run = models.ReindexRun.objects.get()
    assert (run.what, run.created_by) == ("chunks", store.owner)

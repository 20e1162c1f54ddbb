"""Hit test page: equal to the API, two settings side by side, settings and questions saved."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from rag import models
from rag.core.types import RetrievalSettings
from tests.edges.admin_client import at, client_of, page, use_words_embedder, words
from tests.edges.api_client import client_for, ok
from tests.factories import EDITOR, FileFactory, GroupFactory, StoreFactory, UserFactory, publish
from tests.integration.golden_world import golden

pytestmark = pytest.mark.django_db
RIGHTS = (*EDITOR, "add_goldenquestion", "change_store", "view_store", "view_file", "view_chunk")
TEXTS = (
    "Annual leave is twenty days.",
    "Sick leave needs a certificate.",
    "员工手册有二十页。",
    "Parking is free for visitors.",
)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> models.Store:
    use_words_embedder(monkeypatch, settings)
    store = StoreFactory(owner=UserFactory(permissions=tuple(dict.fromkeys(RIGHTS))))
    for n, text in enumerate(TEXTS):
        publish(FileFactory(store=store, name=f"law {n}.txt"), text)
    store.refresh_from_db()
    return store


@pytest.fixture
def client(store: models.Store) -> Client:
    assert store.owner is not None
    return client_of(store.owner)


def chunk(store: models.Store, text: str) -> models.Chunk:
    return models.Chunk.objects.get(store=store, text=text)


def url(store: models.Store, **query: Any) -> str:
    return at("rag_store_search", store.pk, **query)


ALL: dict[str, Any] = {
    "mode": "hybrid",
    "top_k": 3,
    "fusion": "rrf",
    "vector_weight": 0.4,
    "bm25_weight": 0.6,
    "vector_threshold": -0.5,
    "bm25_threshold": 0.01,
    "rerank": "none",
    "rerank_top_k": 7,
    "context_type": "detailed",
    "context_tokens": 500,
    "content_types": ["document"],
    "metadata": {},
}


@pytest.mark.parametrize("changes", [{}, {"mode": "keyword"}, {"fusion": "rrf", "top_k": 2}, ALL])
def test_it_finds_what_the_api_finds_by_the_same_settings(
    store: models.Store, client: Client, changes: dict[str, Any]
) -> None:
    body = {"query": "sick leave", "stores": [store.slug], "settings": changes}
    told = ok(client_for(store.owner).send("post", "/api/rag/retrieve", body))  # type: ignore[arg-type]
    form = {**changes}
    if "content_types" in form:
        form |= {"content_types": ", ".join(form["content_types"]), "metadata": ""}
    context = client.get(url(store), {"q": "sick leave", **form}).context
    shown = [row["hit"] for row in context["hits"]]
    assert [(hit.chunk_id, hit.score) for hit in shown] == [
        (hit["chunk_id"], hit["score"]) for hit in told["hits"]
    ]
    (trial,) = context["trials"]
    assert trial["trial"].context.text == told["context"]
    assert trial["settings"] == RetrievalSettings(
        **{**changes, **({"content_types": ("document",)} if "content_types" in changes else {})}
    )
    assert trial["analysis"].intent == told["metadata"]["query_intent"]


def test_the_form_has_every_setting(store: models.Store, client: Client) -> None:
    form = client.get(url(store)).context["form"]
    assert set(form.fields) == set(RetrievalSettings.__dataclass_fields__)


def test_the_analysis_the_context_and_the_times_are_shown(
    store: models.Store, client: Client
) -> None:
    models.Store.objects.update(vocabulary={"form": ["certificate"]})
    text = words(page(client, "rag_store_search", store.pk, q="certificate for sick leave"))
    assert "certificate (form)" in text
    assert "analyzed by rules" in text
    assert "The context as a model gets it" in text
    assert "Sick leave needs a certificate." in text
    for step in ("query analysis", "post-processing", "in all"):
        assert step in text


def test_two_settings_stand_side_by_side(store: models.Store, client: Client) -> None:
    query = {
        "q": "leave",
        "mode": "hybrid",
        "top_k": 4,
        "compare": "1",
        "b-mode": "keyword",
        "b-bm25_threshold": "0",
    }
    context = client.get(url(store), query).context
    first, second = context["trials"]
    assert (first["settings"].mode, second["settings"].mode) == ("hybrid", "keyword")
    assert second["settings"].bm25_threshold == 0
    assert len(first["hits"]) > len(second["hits"]) == 2
    elsewhere = [row["elsewhere"] for row in first["hits"]]
    assert "not there" in elsewhere
    assert {"the same place", "there at 1", "there at 2"} & set(elsewhere)


def test_a_wrong_setting_of_either_side_is_said(store: models.Store, client: Client) -> None:
    for query in ({"b-top_k": "0"}, {"b-metadata": "[1]"}, {"context_tokens": "1"}):
        context = client.get(url(store), {"q": "leave", "compare": "1", **query}).context
        assert any(form.errors for form in context["forms"])
        assert context["trials"] == []
    both = {"q": "leave", "vector_weight": "0", "bm25_weight": "0"}
    assert "both 0" in client.get(url(store), both).context["error"]


def test_a_chunk_that_must_be_found_becomes_a_golden_question(
    store: models.Store, client: Client
) -> None:
    wanted = chunk(store, TEXTS[3])
    address = url(store) + "?q=sick+leave&mode=keyword"
    shown = client.post(address, {"chunk": wanted.pk}, follow=True)
    assert "this chunk must be found" in words(shown.content.decode())
    question = store.golden_questions.get()
    assert (question.query, question.origin) == ("sick leave", "playground")
    assert question.created_by == store.owner
    assert question.targets.get().chunk_id == wanted.pk
    assert [one.chunk_ids for one in shown.context["trials"][0]["missing"]] == [{wanted.pk}]
    assert "it was not found" in words(shown.content.decode())
    found = chunk(store, TEXTS[1])
    shown = client.post(address, {"chunk": found.pk}, follow=True)
    assert [row["hit"].chunk_id for row in shown.context["hits"] if row["is_expected"]] == [
        found.pk
    ]
    assert question.targets.count() == 2
    refused = client.post(address, {"chunk": "999999999"}, follow=True)
    assert "There is no chunk" in words(refused.content.decode())


def test_settings_are_kept_by_the_store(store: models.Store, client: Client) -> None:
    query = "?q=leave&top_k=7&compare=1&b-mode=keyword&b-metadata=" + json.dumps({"a": 1})
    client.post(url(store) + query, {"save": "a"})
    store.refresh_from_db()
    assert store.retrieval == {"top_k": 7}
    shown = client.post(url(store) + query, {"save": "b"}, follow=True)
    store.refresh_from_db()
    assert store.retrieval == {"top_k": 7, "mode": "keyword", "metadata": {"a": 1}}
    assert "from now on" in words(shown.content.decode())
    client.post(url(store) + "?q=leave&top_k=0", {"save": "a"})
    client.post(url(store) + "?q=leave&vector_weight=0&bm25_weight=0", {"save": "a"})
    store.refresh_from_db()
    assert store.retrieval["top_k"] == 7
    assert "vector_weight" not in store.retrieval


def test_a_reader_tries_but_keeps_nothing(store: models.Store) -> None:
    readers = GroupFactory()
    store.reader_groups.add(readers)
    golden(store, "leave", [chunk(store, TEXTS[3])])
    client = client_of(UserFactory(permissions=RIGHTS, groups=[readers]))
    shown = client.get(url(store), {"q": "leave"})
    assert len(shown.context["hits"]) > 0
    assert shown.context["trials"][0]["missing"] == []
    assert "must be found" not in shown.content.decode()
    for data in ({"save": "a"}, {"chunk": chunk(store, TEXTS[0]).pk}):
        assert client.post(url(store) + "?q=leave&top_k=1", data).status_code == 403
    store.refresh_from_db()
    assert store.retrieval == {}
    assert models.GoldenQuestion.objects.count() == 1


def test_who_may_not_read_the_store_finds_no_page(store: models.Store) -> None:
    client = client_of(UserFactory(permissions=RIGHTS))
    assert client.get(url(store), {"q": "leave"}).status_code == 404
    assert client.post(url(store) + "?q=x", {"save": "a"}).status_code == 404

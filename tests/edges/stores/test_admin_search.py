"""The hit test: the one search of all edges, with what led to each hit."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from rag import models
from rag.admin.ui.cells import pages_text
from rag.core.errors import ProviderTimeoutError
from rag.services.access.api_keys import scope_of
from rag.services.search.retrieval import retrieve
from rag.services.wiring import registry as wiring
from tests.edges.admin_client import at, client_of, page, use_words_embedder, words
from tests.factories import EDITOR, FileFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Any:
    use_words_embedder(monkeypatch, settings)
    store = StoreFactory(owner=UserFactory(permissions=EDITOR))
    file = FileFactory(store=store, name="law.txt")
    publish(
        file,
        "Annual leave is twenty days.",
        "Sick leave needs a certificate.",
        "员工手册有二十页。",
        "Parking is free for visitors.",
    )
    return file


@pytest.fixture
def client(file: Any) -> Client:
    return client_of(file.store.owner)


def found(client: Client, file: Any, **query: Any) -> Any:
    return client.get(at("rag_store_search", file.store.pk), query).context


def test_nothing_is_searched_before_a_question(client: Client, file: Any) -> None:
    context = found(client, file)
    assert "result" not in context
    assert not models.QueryLog.objects.exists()


@pytest.mark.parametrize(
    "changes", [{}, {"mode": "keyword"}, {"mode": "semantic"}, {"fusion": "rrf"}, {"top_k": 2}]
)
def test_it_finds_what_the_service_finds(
    client: Client, file: Any, changes: dict[str, Any]
) -> None:
    context = found(client, file, q="annual leave", **changes)
    result = retrieve(
        query="annual leave",
        scope=scope_of(file.store.owner),
        stores=[file.store],
        settings=file.store.retrieval_settings.but(**changes),
    )
    shown = [item["hit"] for item in context["hits"]]
    assert [(hit.chunk_id, hit.score) for hit in shown] == [
        (hit.chunk_id, hit.score) for hit in result.hits
    ]
    assert context["result"].settings_hash == result.settings_hash
    assert shown[0].text.startswith("Annual leave is twenty days.")


def test_each_hit_shows_its_legs_its_page_and_its_words(client: Client, file: Any) -> None:
    models.Chunk.objects.update(heading_path=["Absence", "Illness"])
    shown = page(client, "rag_store_search", file.store.pk, q="certificate", mode="hybrid")
    hit = found(client, file, q="certificate", mode="hybrid")["hits"][0]["hit"]
    text = words(shown)
    pages = pages_text(hit.page_first, hit.page_last)
    assert f"law.txt page {pages} Absence › Illness" in text
    assert f"score {hit.score:.4f}" in text
    assert f"vector search #{hit.vector.rank}, {hit.vector.score:.4f}" in text
    assert f"full-text search #{hit.lexical.rank}, {hit.lexical.score:.3f}" in text
    assert "<mark>certificate</mark>" in shown
    for step in ("access", "embedding the query", "database", "in all"):
        assert step in text
    assert f'href="{at("rag_chunk_change", hit.chunk_id)}"' in shown


def test_chinese_words_are_found_and_marked(client: Client, file: Any) -> None:
    shown = page(client, "rag_store_search", file.store.pk, q="手册", mode="keyword")
    assert "员工<mark>手册</mark>有二十页" in shown


def test_the_store_s_own_settings_are_the_default(client: Client, file: Any) -> None:
    models.Store.objects.update(retrieval={"mode": "keyword", "top_k": 1})
    context = found(client, file, q="leave")
    assert (context["result"].mode, context["result"].top_k, len(context["hits"])) == (
        "keyword",
        1,
        1,
    )
    choices = context["form"].fields["mode"].choices
    assert choices[0] == ("", "as the store: full-text search")


def test_text_of_files_and_questions_is_escaped(client: Client, file: Any) -> None:
    other = FileFactory(store=file.store, name="<script>alert(1)</script>")
    publish(other, "danger <img src=x onerror=alert(2)> danger")
    models.Chunk.objects.filter(file=other).update(heading_path=["<script>alert(3)</script>"])
    question = 'danger"><script>alert(4)</script>'
    shown = client.get(at("rag_store_search", file.store.pk), {"q": question}).content.decode()
    assert "<script>alert" not in shown
    assert "<img src=x" not in shown
    assert "<mark>danger</mark> &lt;img src=x" in shown
    assert "&lt;script&gt;alert(4)" in shown


def test_a_wrong_setting_is_said_beside_its_field(client: Client, file: Any) -> None:
    for query in ({"top_k": "0"}, {"top_k": "201"}, {"mode": "psychic"}, {"q": " "}):
        context = found(client, file, **{"q": "leave", **query})
        assert context["form"].errors or context["question"].errors
        assert "result" not in context


def test_settings_broken_past_the_form_are_an_error_not_a_crash(client: Client, file: Any) -> None:
    models.Store.objects.update(retrieval={"mode": "psychic"})
    assert "Unknown retrieval mode" in found(client, file, q="leave")["error"]


def test_a_model_that_does_not_answer_is_said(
    client: Client, file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(space_id: int) -> None:
        raise ProviderTimeoutError("{host} is <slow>.", host="the model")

    monkeypatch.setattr(wiring, "embedder_of", fail)
    shown = page(client, "rag_store_search", file.store.pk, q="leave")
    assert "the model is &lt;slow&gt;." in shown


def test_no_hit_is_said(client: Client, file: Any) -> None:
    shown = page(client, "rag_store_search", file.store.pk, q="zzzzz", mode="keyword")
    assert "Nothing was found." in shown


def test_each_question_is_kept_in_the_query_log(client: Client, file: Any) -> None:
    found(client, file, q="leave")
    row = models.QueryLog.objects.get()
    assert (row.query, row.user, row.store_ids) == ("leave", file.store.owner, [file.store.pk])
    shown = words(page(client, "rag_querylog_changelist"))
    assert "leave" in shown
    assert page(client, "rag_querylog_change", row.pk)

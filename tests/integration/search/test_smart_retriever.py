"""Retrieval for agents: whose stores, whose rights, sync and async, plain dicts."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, NotFoundError, UnknownNameError
from rag.core.hits import Hit
from rag.core.types import RetrievalSettings
from rag.services.search.engine import Candidates, run_search
from rag.services.search.smart_retriever import SmartRetriever
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db
OPERATOR = {"scope": Scope.operator()}


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


@pytest.fixture
def store() -> models.Store:
    store = StoreFactory(name="Manuals", slug="manuals", is_public=True)
    publish(FileFactory(store=store, name="pump.txt"), "the warranty of the pump lasts two years")
    return store


@pytest.fixture
def hidden() -> models.Store:
    store = StoreFactory(name="Board", slug="board", readers=[GroupFactory(name="board")])
    publish(FileFactory(store=store, name="board.txt"), "the warranty of the board is a secret")
    return store


def ask(retriever: SmartRetriever, context: dict[str, Any], **values: Any) -> dict[str, Any]:
    return retriever.retrieve_for_agent_sync("How long is the warranty?", context, **values)


def files(found: dict[str, Any]) -> list[str]:
    return [result["source"]["name"] for result in found["results"]]


def test_results_have_the_promised_shape(store: models.Store) -> None:
    found = ask(SmartRetriever([store]), {})
    assert set(found) == {"results", "retrieval_metadata"}
    (result,) = found["results"]
    assert result["content"] == "the warranty of the pump lasts two years"
    assert set(result) >= {
        "content",
        "score",
        "content_type",
        "document_id",
        "source",
        "highlights",
    }
    assert result["source"] == {
        "type": "document",
        "name": "pump.txt",
        "id": result["document_id"],
    }
    told = found["retrieval_metadata"]
    assert set(told) >= {"mode", "query_intent", "content_types", "top_k", "total_found"}
    assert (told["query_intent"], told["top_k"], told["total_found"]) == ("lookup", 3, 1)
    assert json.loads(json.dumps(found)) == found
    assert Hit.from_dict(result).text == result["content"]


@pytest.mark.parametrize("name", ["manuals", "Manuals"])
@pytest.mark.parametrize("key", ["stores", "project_id"])
def test_the_context_names_the_store(key: str, name: str, store: models.Store) -> None:
    assert files(ask(SmartRetriever(), {key: name})) == ["pump.txt"]
    assert files(ask(SmartRetriever(), {"stores": [name, store], "project_id": "x"})) == [
        "pump.txt"
    ]


def test_stores_win_over_the_project_and_this_over_the_retriever_s(
    store: models.Store, hidden: models.Store
) -> None:
    retriever = SmartRetriever("board")
    assert files(ask(retriever, OPERATOR)) == ["board.txt"]
    assert files(ask(retriever, {**OPERATOR, "project_id": "manuals"})) == ["pump.txt"]
    both = {**OPERATOR, "stores": ["manuals", "board"], "project_id": "board"}
    assert set(files(ask(retriever, both))) == {"pump.txt", "board.txt"}
    for empty in (None, "", [], ()):
        assert files(ask(retriever, {**OPERATOR, "stores": empty, "project_id": empty})) == [
            "board.txt"
        ]


def test_without_a_store_there_is_nothing_and_a_notice() -> None:
    found = ask(SmartRetriever(), {"user_id": 1})
    assert found["results"] == []
    assert "No store was named" in found["retrieval_metadata"]["notice"]


def test_rights_are_the_user_s(hidden: models.Store) -> None:
    member = UserFactory(groups=list(hidden.reader_groups.all()))
    stranger = UserFactory()
    retriever = SmartRetriever(["board"])
    for user_id in (member.pk, str(member.pk)):
        assert files(ask(retriever, {"user_id": user_id})) == ["board.txt"]
    messages = set()
    for context in ({}, {"user_id": stranger.pk}, {"user_id": 10**9}, {"scope": Scope.anonymous()}):
        with pytest.raises(NotFoundError, match="There is no store “board”") as caught:
            ask(retriever, context)
        messages.add(str(caught.value))
    with pytest.raises(NotFoundError) as caught:
        ask(SmartRetriever(["nowhere"]), {})
    assert messages == {str(caught.value).replace("nowhere", "board")}, "both look the same"


def test_a_scope_wins_over_a_user(hidden: models.Store) -> None:
    context = {"scope": Scope.operator(), "user_id": UserFactory().pk}
    assert files(ask(SmartRetriever(["board"]), context)) == ["board.txt"]


@pytest.mark.parametrize(
    "context",
    [
        {"user_id": "x"},
        {"user_id": True},
        {"user_id": -1},
        {"user_id": "9" * 30},
        {"scope": "all"},
        {"settings": ["top_k"]},
        {"settings": {"top_k": 0}},
        {"settings": {"nonsense": 1}},
    ],
)
def test_a_context_that_makes_no_sense_is_an_error(
    context: dict[str, Any], store: models.Store
) -> None:
    with pytest.raises(InvalidInputError):
        ask(SmartRetriever([store]), context)


def test_an_unknown_mode_is_an_error_even_without_stores() -> None:
    with pytest.raises(UnknownNameError, match="Known: auto, hybrid, keyword, semantic"):
        ask(SmartRetriever(), {}, retrieval_mode="magic")


def test_settings_of_the_context_are_laid_over_the_store_s(store: models.Store) -> None:
    store.retrieval = {"mode": "semantic", "top_k": 7}
    store.save()
    told = ask(SmartRetriever([store]), {"settings": {"top_k": 1}})["retrieval_metadata"]
    assert (told["mode"], told["top_k"]) == ("semantic", 1)
    chosen = {"settings": RetrievalSettings(mode="keyword", top_k=2)}
    told = ask(SmartRetriever([store]), chosen)["retrieval_metadata"]
    assert (told["mode"], told["top_k"]) == ("keyword", 2)
    told = ask(SmartRetriever([store]), chosen, retrieval_mode="hybrid")["retrieval_metadata"]
    assert told["mode"] == "hybrid"


def test_another_search_engine_is_asked(store: models.Store) -> None:
    asked = []

    def engine(**values: Any) -> Candidates:
        asked.append(values["query"])
        return run_search(**values)

    ask(SmartRetriever([store], search_engine=engine), {})
    assert set(asked) == {"How long is the warranty?"}


async def test_it_can_be_awaited_in_a_running_loop(store: models.Store) -> None:
    retriever = SmartRetriever([store])
    found = await retriever.retrieve_for_agent("How long is the warranty?", {}, "keyword")
    assert files(found) == ["pump.txt"]
    many = await asyncio.gather(
        *(retriever.retrieve_for_agent("How long is the warranty?", {}) for _ in range(4))
    )
    assert [files(one) for one in many] == [["pump.txt"]] * 4
    with pytest.raises(UnknownNameError):
        await retriever.retrieve_for_agent("x", {}, "magic")


def test_both_callers_get_the_same(store: models.Store) -> None:
    retriever = SmartRetriever([store])
    awaited = async_to_sync(retriever.retrieve_for_agent)("How long is the warranty?", {})
    assert awaited["results"] == ask(retriever, {})["results"]


@pytest.mark.django_db(transaction=True)
def test_the_connection_is_given_back_after_an_awaited_call(store: models.Store) -> None:
    retriever = SmartRetriever([store])
    async_to_sync(retriever.retrieve_for_agent)("How long is the warranty?", {})
    assert connection.connection is None
    with pytest.raises(NotFoundError):
        async_to_sync(retriever.retrieve_for_agent)("x", {"stores": ["nowhere"]})
    assert connection.connection is None

"""The mixin: three lines give any class retrieval, prompts and citations, in both worlds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agents.mixins import RAGMixin
from examples.handbook_agent import HandbookAgent
from rag import models
from rag.core.access import Scope
from rag.core.errors import NotFoundError, UnknownNameError
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db
PAGES = (
    "The pump stops at fault E21. Wait 15 minutes until the motor is cool.",
    "Filters are changed every second Monday by the day shift.",
)
QUESTION = "How many minutes until the motor is cool?"
OPERATOR = {"scope": Scope.operator()}


class Agent(RAGMixin):
    rag_stores = ("demo",)


@pytest.fixture(autouse=True)
def _models(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


@pytest.fixture
def store() -> models.Store:
    store = StoreFactory(name="Demo", slug="demo")
    for name, text in zip(("pump.pdf", "filters.pdf"), PAGES, strict=True):
        publish(FileFactory(store=store, name=name), text)
    return store


async def test_it_returns_context_results_and_decisions(store: models.Store) -> None:
    found = await Agent().retrieve_context(QUESTION, OPERATOR)
    assert found["context"].startswith("[Sources]\n\n1. (doc_01)")
    assert PAGES[0] in found["context"]
    first = found["rag_results"][0]
    assert (first["content"], first["source"]["name"]) == (PAGES[0], "pump.pdf")
    metadata = found["metadata"]
    assert {"mode", "query_intent", "content_types", "top_k", "total_found"} <= metadata.keys()
    assert (metadata["context_type"], metadata["n_sources"]) == (
        "standard",
        len(found["rag_results"]),
    )
    assert json.loads(json.dumps(found)) == found


def test_the_sync_twin_finds_the_same(store: models.Store) -> None:
    found = Agent().retrieve_context_sync(QUESTION, OPERATOR, "hybrid", "xml")
    assert found["context"].startswith('<documents>\n<document id="doc_01" source="pump.pdf"')
    assert found["metadata"]["mode"] == "hybrid"


@pytest.mark.parametrize("context_type", ["standard", "detailed", "summary", "xml"])
def test_results_are_numbered_as_the_context_numbers_them(
    store: models.Store, context_type: str
) -> None:
    publish(
        FileFactory(store=store, name="other.pdf", content_type="faq"),
        "The motor of the fan is cool.",
    )
    found = Agent().retrieve_context_sync(
        "motor cool fan minutes pump", OPERATOR, "hybrid", context_type
    )
    assert len(found["rag_results"]) > 1
    places = [
        found["context"].index(" ".join(result["content"].split())[:20])
        for result in found["rag_results"]
    ]
    assert places == sorted(places)


def test_a_state_may_name_the_store_and_the_user(store: models.Store) -> None:
    class Bare(RAGMixin):
        pass

    state = {"project_id": "demo", "user_id": UserFactory(is_superuser=True).pk}
    assert Bare().retrieve_context_sync(QUESTION, state)["rag_results"][0]["content"] == PAGES[0]


def test_who_may_not_read_a_store_finds_none(store: models.Store) -> None:
    for state in ({}, {"user_id": UserFactory().pk}, {"scope": Scope.anonymous()}):
        with pytest.raises(NotFoundError, match="There is no store “demo”"):
            Agent().retrieve_context_sync(QUESTION, state)


def switch_off(agent: RAGMixin) -> None:
    agent.smart_retriever = None  # type: ignore[misc]


@pytest.mark.parametrize("prepare", [lambda agent: None, switch_off])
def test_without_stores_or_retriever_all_is_empty_and_says_so(
    prepare: Callable[[RAGMixin], None],
) -> None:
    class Bare(RAGMixin):
        pass

    agent = Bare()
    prepare(agent)
    found = agent.retrieve_context_sync(QUESTION, OPERATOR)
    assert (found["context"], found["rag_results"]) == ("", [])
    assert found["metadata"]["notice"]
    assert agent.enhance_prompt_with_rag("Write.", found["context"]) == "Write."


@pytest.mark.parametrize(
    ("mode", "context_type", "known"),
    [
        ("fuzzy", "standard", "auto, hybrid, keyword, semantic"),
        ("auto", "essay", "detailed, standard, summary, xml"),
    ],
)
def test_unknown_modes_and_types_list_the_known_ones(
    mode: str, context_type: str, known: str
) -> None:
    class Bare(RAGMixin):
        pass

    for agent in (Bare(), Agent()):
        with pytest.raises(UnknownNameError, match=known):
            agent.retrieve_context_sync(QUESTION, OPERATOR, mode, context_type)


def test_an_unknown_enhancement_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="analytical, creative, standard"):
        Agent().enhance_prompt_with_rag("Write.", "", "poetic")


def test_it_works_beside_bases_that_take_arguments_or_call_nobody(store: models.Store) -> None:
    class Named:
        def __init__(self, name: str, **rest: Any) -> None:
            super().__init__(**rest)
            self.name = name

    class Cooperative(RAGMixin, Named):
        rag_stores = ("demo",)

    class Silent(RAGMixin):
        rag_stores = ("demo",)

        def __init__(self) -> None:
            self.name = "silent"

    assert Cooperative(name="a").name == "a"
    for agent in (Cooperative("a"), Silent()):
        assert agent.retrieve_context_sync(QUESTION, OPERATOR)["rag_results"]


def test_cited_quotes_are_checked_against_the_results(store: models.Store) -> None:
    agent = Agent()
    found = agent.retrieve_context_sync(QUESTION, OPERATOR)
    text = (
        'It takes <cite doc_id="doc_01" quote="Wait 15 minutes until the motor is cool.">15 minutes</cite>, '
        '<cite doc_id="doc_01" quote="Wait 50 minutes until the motor is cool.">not more</cite>.'
    )
    cited = agent.cite(text, found["rag_results"])
    assert [one["verdict"] for one in cited["citations"]] == ["verified", "altered"]
    assert cited["citation_count"] == 2
    chunk = models.Chunk.objects.get(text=PAGES[0])
    first = cited["citations"][0]
    assert (first["chunk_id"], first["source"]["name"]) == (chunk.pk, "pump.pdf")
    assert (
        PAGES[0][first["char_start"] - chunk.char_start :][: len(first["quote"])] == first["quote"]
    )


def test_results_that_were_tampered_with_verify_nothing_when_read_anew(
    store: models.Store,
) -> None:
    agent = Agent()
    forged = [
        {**one, "content": "It is safe to open.", "text": "It is safe to open."}
        for one in agent.retrieve_context_sync(QUESTION, OPERATOR)["rag_results"]
    ]
    text = '<cite doc_id="doc_01" quote="It is safe to open.">Open it</cite>.'
    believed, anew = (agent.cite(text, forged, scope=scope) for scope in (None, Scope.operator()))
    assert [one["verdict"] for one in believed["citations"]] == ["verified"]
    assert [one["verdict"] for one in anew["citations"]] == ["unknown"]
    hidden = agent.cite(text, forged, scope=Scope.anonymous())
    assert [one["verdict"] for one in hidden["citations"]] == ["unknown"]


def test_the_example_agent_answers_with_checked_citations(store: models.Store) -> None:
    state = HandbookAgent().answer(QUESTION, {**OPERATOR, "session_id": "s1"})
    assert "15 minutes" in state["answer"]
    assert [one["verdict"] for one in state["citations"]] == ["verified"]
    assert (state["session_id"], state["rag_metadata"]["context_type"]) == ("s1", "xml")

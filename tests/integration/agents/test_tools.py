"""Our tools keep to the contract of tools and answer what they say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from agents.tools.grade import Grade
from agents.tools.query_rewrite import QueryRewrite
from agents.tools.rerank import Rerank
from agents.tools.vector_retrieve import VectorRetrieve
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.hits import Hit
from rag.core.tools import call_tool
from rag.models import Chunk, File
from rag.plugins.contract_tool import ToolContract
from rag.services.plugins import list_plugins
from rag.services.sources.ports import SourceContext
from tests.factories import publish
from tests.integration.agent_world import TEXTS, AgentWorld, world

__all__ = ["world"]
RANKING = '{"ranking": [{"id": 2, "score": 9}, {"id": 1, "score": 2}]}'


@pytest.fixture(autouse=True)
def desk(world: AgentWorld) -> Iterator[AgentWorld]:
    world.use(
        lambda request: RANKING if "<documents>" in request.messages[-1].content else "The cost?"
    )
    yield world


class _House(ToolContract):
    def ports(self) -> Any:
        return SourceContext()


class TestVectorRetrieve(_House):
    plugin = VectorRetrieve
    options: Mapping[str, Any] = {"query": "pump", "stores": ["manuals"]}

    def hidden_options(self) -> Mapping[str, Any]:
        return self.options

    def failing_options(self) -> Mapping[str, Any]:
        return {"query": "pump", "stores": ["no such store"]}


class TestRerank(_House):
    plugin = Rerank
    options: Mapping[str, Any] = {"query": "cost", "texts": ["a", "b"]}
    has_access_rules = False

    def failing_options(self) -> Mapping[str, Any]:
        return {"query": "cost", "texts": ["a", "b"], "method": "endpoint"}


class TestGrade(_House):
    plugin = Grade
    options: Mapping[str, Any] = {"question": "cost", "texts": ["a", "b"]}
    has_access_rules = False

    def failing_options(self) -> Mapping[str, Any]:
        return {"question": "cost", "texts": ["a"] * 3}


class TestQueryRewrite(_House):
    plugin = QueryRewrite
    options: Mapping[str, Any] = {"query": "and it?", "history": ["What does the pump cost?"]}
    has_access_rules = False

    def failing_options(self) -> Mapping[str, Any]:
        return {"query": "  ", "history": []}


def call(tool: Any, **arguments: Any) -> dict[str, Any]:
    return call_tool(
        tool(), arguments, scope=Scope.operator(), deadline=Deadline(20), ports=SourceContext()
    )


def test_they_are_there_for_models_by_name() -> None:
    names = {one.name for one in list_plugins(kind="tool").plugins}
    assert {"vector_retrieve", "rerank", "grade", "query_rewrite"} <= names


def test_passages_are_found_with_their_place(desk: AgentWorld) -> None:
    publish(File.objects.get(store=desk.store, name="pump manual.txt"), *TEXTS[:3], gap=17)
    found = call(VectorRetrieve, query="filter of the pump", top_k=1)
    (one,) = found["results"]
    assert one["file"] == "pump manual.txt" and one["page"] == 2 and "filter" in one["content"]
    assert found["confidence"] > 0.5 and "data" not in one


def test_a_merged_passage_says_where_its_best_part_is_and_what_it_is_made_of(
    desk: AgentWorld,
) -> None:
    (one,) = call(VectorRetrieve, query="filter of the pump", top_k=1)["results"]
    assert (one["page"], one["page_first"], one["page_last"]) == (2, 1, 3)
    parts = Chunk.objects.filter(file=one["file_id"]).order_by("ordinal")
    assert [part["chunk_id"] for part in one["data"]["chunks"]] == [part.pk for part in parts]
    assert set(Hit.from_dict(one).chunk_ids) == {part.pk for part in parts}


def test_texts_are_sorted_and_graded() -> None:
    assert call(Rerank, query="q", texts=["x", "y"])["ranking"] == [
        {"index": 1, "score": 0.9},
        {"index": 0, "score": 0.2},
    ]
    grades = call(Grade, question="q", texts=["x", "y"])["grades"]
    assert [one["is_relevant"] for one in grades] == [False, True]


def test_without_a_model_words_and_rules_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    graded = call(Grade, question="pump warranty", texts=["the pump's warranty", "seeds"])
    assert graded["method"] == "words"
    assert [one["is_relevant"] for one in graded["grades"]] == [True, False]
    assert call(QueryRewrite, query="How much is it?", history=["Is the HX-400 new?"]) == {
        "query": "How much is HX-400?",
        "method": "entity",
    }
    assert call(QueryRewrite, query="How much?", history=[])["method"] == "none"

"""One door to retrieval: every edge that searches gets the same chunks, scores and mode."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from agents.chat.agents.answer_context import search_agent_stores
from agents.chat.mcp.tools import SearchTool
from agents.core.agent_config import AgentConfig
from agents.tools.vector_retrieve import VectorRetrieve
from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.hits import Hit
from rag.core.options import read_options
from rag.core.sources import SourceQuery
from rag.core.tools import call_tool
from rag.plugins.sources.vector_store import VectorStoreSource
from rag.services.access import scope_of
from rag.services.evaluation import evaluate_store, rank_documents
from rag.services.search import SmartRetriever, retrieve
from rag.services.sources import SourceContext
from tests.edges.admin_client import at, client_of, use_words_embedder
from tests.edges.api_client import client_for, ok
from tests.factories import EDITOR, FileFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db
DEMO = Path(__file__).resolve().parents[3] / "rag" / "demo"
VENTILATE = "How long do I ventilate after a UV lamp breaks?"
QUESTIONS = [
    VENTILATE,
    *(
        row["question"]
        for row in json.loads((DEMO / "questions.json").read_text())["golden"][4:28:2]
    ),
]
# Chunk ids, scores to six digits, mode: what all have to agree on.
Found = tuple[list[int | None], list[float], str]


@pytest.fixture
def store(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> Any:
    use_words_embedder(monkeypatch, settings)
    owner = UserFactory(permissions=EDITOR)
    store = StoreFactory(owner=owner, slug="demo", name="Demo", retrieval={"top_k": 10})
    for path in sorted((DEMO / "sources").iterdir()):
        texts = path.read_text(encoding="utf-8").split("\n\n")
        publish(FileFactory(store=store, name=path.name[:-4]), *(t for t in texts if t.strip()))
    store.refresh_from_db()
    return store


def told(results: Iterable[dict[str, Any]], mode: str) -> Found:
    rows = list(results)
    return [row["chunk_id"] for row in rows], [round(row["score"], 6) for row in rows], mode


def shown(hits: Iterable[Hit], mode: str) -> Found:
    return told((hit.as_dict() for hit in hits), mode)


def logged() -> Found:
    row = models.QueryLog.objects.latest("pk")
    return row.chunk_ids, [round(row.best_score or 0, 6)], row.mode


def ask_edges(store: models.Store, query: str) -> dict[str, Found]:
    """Return what the edges show that take the store's own settings as they are."""
    scope, client = scope_of(store.owner), client_for(store.owner, rights=["read"])
    body = {"query": query, "stores": [store.slug]}
    found = ok(client.send("post", "/api/rag/retrieve", body))
    answer = ok(client.send("post", "/api/rag/ask", body))
    page = client_of(store.owner).get(at("rag_store_search", store.pk), {"q": query}).context
    agent = SmartRetriever([store]).retrieve_for_agent_sync(query, {"scope": scope})
    mcp = call_tool(
        SearchTool(),
        {"query": query, "stores": [store.slug]},
        scope=scope,
        deadline=Deadline(10),
        ports=SourceContext(),
    )
    return {
        "retrieve API": told(found["hits"], found["metadata"]["mode"]),
        "ask API": told(answer["hits"], answer["metadata"]["mode"]),
        "hit test": shown((item["hit"] for item in page["hits"]), page["result"].mode),
        "smart retriever": told(agent["results"], agent["retrieval_metadata"]["mode"]),
        "MCP": told(mcp["results"], mcp["mode"]),
    }


def ask_flows_and_agents(store: models.Store, query: str, top_k: int) -> dict[str, Found]:
    """Return what those show whose number of hits is their own option."""
    scope = scope_of(store.owner)
    options = {"collection": store.slug, "top_k": top_k}
    source = VectorStoreSource(read_options(VectorStoreSource.Options, options, of="vector_store"))
    flow = source.retrieve(SourceQuery(query, scope, Deadline(10), SourceContext()))
    flow_mode = logged()[2]
    config = AgentConfig(search_mode="auto", vector_threshold=0.0, bm25_threshold=0.0)
    agent = search_agent_stores(
        query=query, scope=scope, stores=[store], config=config, top_k=top_k
    )
    tool = call_tool(
        VectorRetrieve(),
        {"query": query, "stores": [store.slug], "top_k": top_k, "mode": "auto"},
        scope=scope,
        deadline=Deadline(10),
        ports=SourceContext(),
    )
    return {
        "flow": shown(flow.hits, flow_mode),
        "agent": shown(agent.hits, agent.metadata["mode"]),
        "agent's tool": told(tool["results"], logged()[2]),
    }


@pytest.mark.parametrize("query", QUESTIONS)
def test_every_edge_finds_the_same(query: str, store: models.Store) -> None:
    scope = scope_of(store.owner)
    result = retrieve(query=query, scope=scope, stores=[store])
    right = shown(result.hits, result.mode)
    assert right[0], "something is found"
    edges = ask_edges(store, query) | ask_flows_and_agents(store, query, 10)
    assert edges == dict.fromkeys(edges, right)
    # Of these the query log tells what was found.
    client = client_for(store.owner)
    body = {"mode": "fileSearch", "query": query, "fileSearchStoreName": store.resource_name}
    assert client.send("post", "/api/rag/search", body).status_code == 200
    parts = [pk for hit in result.hits for pk in hit.chunk_ids]
    assert logged() == (parts, right[1][:1], right[2])
    chunk = models.Chunk.objects.filter(store=store).earliest("pk")
    question = store.golden_questions.create(query=query)
    question.targets.create(file=chunk.file, chunk=chunk)
    for space_id in (None, store.space_id):
        # The gate of a move compares such runs, in the live space and in another.
        run = evaluate_store(store=store, space_id=space_id)
        assert run.results.get().chunk_ids == right[0]


@pytest.mark.parametrize("query", QUESTIONS)
def test_the_dynamic_number_is_everybody_s(query: str, store: models.Store) -> None:
    store.retrieval = {}
    store.save()
    result = retrieve(query=query, scope=Scope.operator(), stores=[store])
    assert result.top_k in (3, 5, 10)
    edges = ask_edges(store, query)
    assert edges == dict.fromkeys(edges, shown(result.hits, result.mode))


def test_a_plain_question_is_asked_both_ways_and_by_words_with_content(store: models.Store) -> None:
    result = retrieve(query=VENTILATE, scope=Scope.operator(), stores=[store])
    assert result.mode == "hybrid"
    marked = {term for hit in result.hits for term in hit.matched_terms}
    assert marked <= {"ventil", "uv", "lamp", "break"}
    settings = store.retrieval_settings.but(mode="keyword", top_k=50)
    chinese = retrieve(
        query="灯破了以后要多久？", scope=Scope.operator(), stores=[store], settings=settings
    )
    marked = {term for hit in chinese.hits for term in hit.matched_terms}
    assert not marked & {"了", "以后", "要", "多久", "之后"}


def test_a_merged_hit_stands_for_the_judged_one_of_its_documents() -> None:
    hits = [
        Hit(text="a", rank=1, page_first=1, page_last=2),
        Hit(text="b", rank=2, page_first=3, page_last=3),
    ]
    assert rank_documents(["a", "b", "c"], {"b": 1}, hits) == ["b", "c"]
    assert rank_documents(["a", "b", "c"], {}, hits) == ["a", "c"]

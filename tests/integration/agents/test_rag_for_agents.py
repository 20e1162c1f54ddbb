"""The parts of retrieval for agents, used by the lines that applications write for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import redis.asyncio
from asgiref.sync import async_to_sync

from agents.mixins import RAGMixin
from rag.core.access import Scope
from rag.core.errors import NotFoundError
from rag.services.answers import CitationManager, ContextBuilder, PromptEnhancer
from rag.services.search import SmartRetriever
from rag.services.search.engine import run_search
from rag.services.search.query_analysis import QueryAnalyzer
from rag.services.search.rag_cache import RAGCache
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, StoreFactory, publish
from tests.fakes.valkey_server import OwnValkey

pytestmark = pytest.mark.django_db(transaction=True)
TEXT = "the warranty of the pump lasts two years"


class EnhancedCreativeAgent(RAGMixin):
    """An agent as its users write it."""

    async def execute(self, state: dict[str, Any]) -> dict[str, Any]:
        task = state["task"]
        rag_data = await self.retrieve_context(
            query=task, state=state, retrieval_mode="auto", context_type="standard"
        )
        enhanced_prompt = self.enhance_prompt_with_rag(
            prompt=task, rag_context=rag_data["context"], enhancement_type="creative"
        )
        return {
            **state,
            "prompt": enhanced_prompt,
            "rag_context": rag_data["context"],
            "rag_metadata": rag_data["metadata"],
        }


@pytest.fixture(autouse=True)
def _store(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)
    store = StoreFactory(name="Manuals", slug="manuals", is_public=True)
    publish(FileFactory(store=store, name="pump.txt"), TEXT)


@pytest.fixture
def server() -> Iterator[OwnValkey]:
    with OwnValkey() as server:
        yield server


async def _uses(logged: Any) -> None:
    query = "How long is the warranty of the pump?"
    query_info = await QueryAnalyzer().analyze(query)
    assert query_info["intent"] == query_info.get("intent", "general")
    assert query_info.get("nothing", 7) == 7 and query_info["complexity"] in ("simple", "medium")
    smart_retriever = SmartRetriever(run_search)
    found = await smart_retriever.retrieve_for_agent(
        query=query,
        context={"project_id": "manuals", "user_id": None},
        retrieval_mode="auto",
    )
    rag_results = found.get("results", [])
    assert found["retrieval_metadata"]["total_found"] == len(rag_results) == 1
    context = ContextBuilder(max_context_length=4000).build_context(
        query=query, rag_results=rag_results, context_type="standard"
    )
    prompt = PromptEnhancer.enhance_prompt(
        original_prompt=query, rag_context=context, enhancement_type="analytical"
    )
    assert TEXT in context and context in prompt
    told = CitationManager.add_citations("The warranty of the pump lasts two years.", rag_results)
    assert told["citation_count"] == len(told["citations"])
    assert isinstance(CitationManager.format_citations(told["citations"]), str)
    with pytest.raises(NotFoundError):
        await smart_retriever.retrieve_for_agent(query=query, context={"project_id": "none"})
    agent = EnhancedCreativeAgent()
    state = await agent.execute({"task": query, "project_id": "manuals"})
    assert TEXT in state["rag_context"] and TEXT in state["prompt"]


def test_the_lines_of_its_users_run_as_they_stand(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="rag.services.search"):
        async_to_sync(_uses)(caplog)
    assert "retrieved 1 hits for an agent in" in caplog.text


def test_a_cache_takes_an_async_client(server: OwnValkey) -> None:
    async def uses() -> Any:
        client = redis.asyncio.Redis.from_url(server.url)
        cache = RAGCache(client, ttl_seconds=3600, scope=Scope.anonymous())
        await cache.set("q", "manuals", None, [{"content": TEXT}])
        found = await cache.get("q", "manuals", None)
        await cache.invalidate_project("manuals")
        return found, await cache.get("q", "manuals", None)

    assert async_to_sync(uses)() == ([{"content": TEXT}], None)

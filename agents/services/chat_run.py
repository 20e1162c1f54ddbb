"""What the house lends the steps of an answer: history, search, models, events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.core.agent import Emit, Team
from agents.core.agent_config import AgentConfig
from agents.core.page_context import PageContext, PageRead
from agents.core.pipeline import Found, PipelineState, Reordered
from agents.core.react import Tools
from agents.core.remembered import Remembered
from agents.core.state import Turn
from agents.services.apart import in_rows, in_threads, in_waits
from agents.services.asked_model import AskedModel
from agents.services.chat_search import search_stores
from agents.services.context_page import read_page
from agents.services.memory_agent import RAGAgentMemory
from rag.core.access import Scope
from rag.core.hits import Hit
from rag.services.rerank import ranked_by, ranking_request, rerank_hits, uses_endpoint
from rag.services.stand_alone import stand_alone
from rag.services.store_facts import asks_for_facts, store_facts

History = Callable[[], tuple[list[Turn], str]]


@dataclass(slots=True, kw_only=True)
class ChatRun(AskedModel):
    """``agents.core.pipeline.PipelineRun`` on our own services, with the rights of ``scope``.

    What is remembered is that of ``person``, who may see more than the agent looks into.
    """

    config: AgentConfig
    scope: Scope
    person: Scope
    stores: Sequence[Any]
    emit: Emit
    history: History | None = None
    temperature: float = 0.7
    prompt: str = ""
    max_iterations: int = 1
    project: str = ""
    page: PageContext | PageRead = field(default_factory=PageContext)
    tools: Tools
    team: Team
    # How many turns there were before; None where it is not known, or a summary covers some.
    n_before: int | None = None

    @property
    def can_rank(self) -> bool:
        """Return whether an endpoint, or a model that writes, can rank as the config wants."""
        return uses_endpoint(method=self.config.rerank) or self.can_write

    def opened(self, query: str, history: Sequence[Turn]) -> PipelineState:
        """Return the state that the run begins with."""
        config = self.config
        self.n_before = None if self.history else len(history)
        return {
            "query": query, "history": list(history), "has_history": self.history is not None,
            "enable_rewrite": config.enable_query_rewrite, "enable_rerank": config.enable_rerank,
            "has_memory": config.enable_memory and self.scope.user_id is not None,
            "top_k": config.default_top_k, "vector_threshold": config.vector_threshold,
            "has_page": bool(self.page),
        }  # fmt: skip

    async def load_history(self) -> tuple[list[Turn], str]:
        """Return the turns before this question and the summary of what was before them."""
        turns, summary = await in_rows(self.history) if self.history else ([], "")
        self.n_before = None if summary else len(turns)
        return turns, summary

    async def recall(self, query: str) -> Sequence[Remembered]:
        """Return memories of who asks, in the agent's project."""
        return await RAGAgentMemory(self.person, self.project).retrieve_relevant_memories(query)

    async def read_page(self, query: str) -> PageRead:
        """Return what the page sends along; documents come through the guarded fetch.

        What the agent that asks has read already is not read again.
        """
        if isinstance(self.page, PageRead):
            return self.page
        return await read_page(
            page=self.page, query=query, scope=self.scope, max_tokens=self.config.page_tokens,
            timeout_s=self.config.page_timeout_s,
        )  # fmt: skip

    async def search(self, query: str, top_k: int) -> Found:
        """Search the agent's stores on another thread."""
        return await in_threads(
            search_stores, query=query, scope=self.scope, stores=self.stores, config=self.config,
            top_k=top_k,
        )  # fmt: skip

    async def rerank(self, query: str, hits: Sequence[Hit]) -> Reordered:
        """Rank by the chat model, which a stop ends at once, or by the endpoint."""
        method, timeout_s = self.config.rerank, self.config.rerank_timeout_s
        if uses_endpoint(method=method):
            ranked = await in_waits(
                rerank_hits, query=query, hits=hits, method=method, timeout_s=timeout_s
            )
            return Reordered(ranked, method)
        request = ranking_request(query=query, hits=hits, model=self.chat.id, timeout_s=timeout_s)
        reply = await self.ask(request)
        ranked = ranked_by(answer=reply.text, hits=hits, method=method)
        return Reordered(ranked, method, ranked[0].score if method == "llm" else None)

    async def store_facts(self, query: str) -> str:
        """Return what the database says of the stores, if that is asked."""
        if not self.stores or not asks_for_facts(question=query):
            return ""
        return await in_threads(store_facts, question=query, scope=self.scope, stores=self.stores)

    async def join_question(self, query: str, before: str) -> tuple[str, str]:
        """Return the question made to stand alone by rules."""
        return stand_alone(query=query, before=before)

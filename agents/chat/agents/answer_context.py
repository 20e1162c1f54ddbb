"""Answer context: history, search, models and events that the steps of one answer may use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from agents.chat.agents.page import read_page
from agents.chat.memory.agent_memory import RAGAgentMemory
from agents.core.agent import Emit, Team
from agents.core.agent_config import AgentConfig
from agents.core.page_context import PageContext, PageRead
from agents.core.pipeline import EarlierAnswer, FoundHits, PipelineState, RerankedHits
from agents.core.react import Tools
from agents.core.recalled_memory import RecalledMemory
from agents.core.state import Turn
from rag.core.access import Scope
from rag.core.errors import ProviderTimeoutError
from rag.core.hits import Hit
from rag.core.ports import ChatModel, ChatRequest
from rag.core.types import ChatReply, Message
from rag.services.answers import answer_store_question
from rag.services.search import (
    apply_ranking_answer,
    document_notice,
    ranking_request,
    ranks_without_chat,
    rerank_hits,
    retrieve,
    shorten_query,
)
from rag.services.threads import run_blocking, run_db, run_external
from rag.services.tokens import count_tokens
from rag.services.wiring.registry import can_write
from rag.stages.query.file_question import parse_store_question


@dataclass(slots=True, kw_only=True)
class MeteredModel:
    """One model for one answer; ``usage`` is what it has cost in tokens so far.

    ``finish_reason`` is why it ended last: stop, length, content_filter or another word of it.
    """

    chat: ChatModel
    usage: dict[str, int] = field(default_factory=dict)
    finish_reason: str = ""

    @property
    def model_id(self) -> str:
        """Return the model as ``provider:model``."""
        return self.chat.id

    @property
    def usage_details(self) -> dict[str, str]:
        """Return the model and why it ended, as the event usage tells them."""
        return {"model": self.chat.id, "finish_reason": self.finish_reason}

    @property
    def can_write(self) -> bool:
        """Return whether the model writes, and does not only quote."""
        return can_write(model_id=self.chat.id)

    def count_tokens(self, text: str) -> int:
        """Return the number of o200k tokens."""
        return count_tokens(text)

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Return a whole answer within the request's time; cancelling ends the model's work."""
        texts, last = [], ChatReply("", self.chat.id)
        try:
            async with asyncio.timeout(request.timeout_s), aclosing(self.stream(request)) as pieces:
                async for last in pieces:
                    texts.append(last.text)
        except TimeoutError:
            raise ProviderTimeoutError(
                "The model {model} did not answer within {timeout_s} s.",
                hint="Try again, or choose a faster model.",
                model=self.chat.id,
                timeout_s=f"{request.timeout_s:g}",
            ) from None
        return ChatReply("".join(texts), last.model or self.chat.id, last.finish_reason)

    async def complete(
        self,
        system: str,
        user: str,
        *,
        max_tokens: int = 1024,
        timeout_s: float = 60.0,
        schema: Mapping[str, Any] | None = None,
    ) -> str:
        """Return what the model says to two texts, as steadily as it can; else as ``ask``."""
        messages = [Message("system", system), Message("user", user)]
        request = ChatRequest(
            messages,
            temperature=0.0,
            max_tokens=max_tokens,
            timeout_s=timeout_s,
            schema=schema,
        )
        return (await self.ask(request)).text

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatReply, None]:
        """Yield the pieces as they come and add up their tokens."""
        pieces: Any = self.chat.stream(request)
        async with aclosing(pieces):
            async for piece in pieces:
                for name in ("input_tokens", "output_tokens"):
                    if (n := getattr(piece, name)) is not None:
                        self.usage[name] = self.usage.get(name, 0) + n
                self.finish_reason = piece.finish_reason or self.finish_reason
                yield piece


def search_agent_stores(
    *, query: str, scope: Scope, stores: Sequence[Any], config: AgentConfig, top_k: int
) -> FoundHits:
    """Return what the agent is shown, and how sure the search is of it.

    The stores' own weights and fusion are used; mode, number, thresholds and what is done with
    doubt are the agent's.
    """
    settings = stores[0].retrieval_settings.but(
        mode=config.search_mode,
        top_k=top_k,
        rerank="none",
        vector_threshold=config.vector_threshold,
        bm25_threshold=config.bm25_threshold,
        unanswerable=config.unanswerable,
        context_tokens=config.context_tokens,
    )
    words = shorten_query(query=query)
    found = retrieve(query=words, scope=scope, stores=stores, settings=settings)
    documents = found.metadata.get("documents") or {}
    if documents and (notice := document_notice(documents=documents, query=query)):
        documents = {**documents, "notice": notice}
    metadata = {**found.metadata, "documents": documents}
    return FoundHits(found.hits, found.confidence or 0.0, metadata, found.answerability)


History = Callable[[], tuple[list[Turn], str]]
Earlier = Callable[..., Sequence[EarlierAnswer]]


@dataclass(slots=True, kw_only=True)
class AnswerContext(MeteredModel):
    """``agents.core.pipeline.PipelineRun`` on our own services, with the rights of ``scope``.

    What is remembered is that of ``person``, who may see more than the agent looks into.
    """

    config: AgentConfig
    scope: Scope
    person: Scope
    stores: Sequence[Any]
    emit: Emit
    history: History | None = None
    earlier: Earlier | None = None
    temperature: float = 0.2
    prompt: str = ""
    max_iterations: int = 1
    project: str = ""
    page: PageContext | PageRead = field(default_factory=PageContext)
    tools: Tools
    team: Team
    # How many turns there were before; None where it is not known, or a summary covers some.
    n_before: int | None = None
    # The keys of memories that the model was told.
    recalled: set[str] = field(default_factory=set)

    @property
    def can_rank(self) -> bool:
        """Return whether an endpoint, or a model that writes, can rank as the config wants."""
        return ranks_without_chat(method=self.config.rerank) or self.can_write

    def initial_state(self, query: str, history: Sequence[Turn]) -> PipelineState:
        """Return the state that the run begins with."""
        config = self.config
        self.n_before = None if self.history else len(history)
        return {
            "query": query,
            "history": list(history),
            "has_history": self.history is not None,
            "enable_rewrite": config.enable_query_rewrite,
            "enable_rerank": config.enable_rerank,
            "has_memory": config.enable_memory and self.scope.user_id is not None,
            "top_k": config.default_top_k,
            "vector_threshold": config.vector_threshold,
            "has_page": bool(self.page),
        }

    async def load_history(self) -> tuple[list[Turn], str]:
        """Return the turns before this question and the summary of what was before them."""
        turns, summary = await run_db(self.history) if self.history else ([], "")
        self.n_before = None if summary else len(turns)
        return turns, summary

    async def earlier_answers(self, n: int) -> Sequence[EarlierAnswer]:
        """Return the last answers of the session; none for a conversation that is not kept."""
        return await run_db(self.earlier, n=n) if self.earlier else ()

    async def recall(self, query: str) -> Sequence[RecalledMemory]:
        """Return memories of who asks, in the agent's project."""
        memory = RAGAgentMemory(self.person, self.project)
        found = await memory.retrieve_relevant_memories(query)
        self.recalled |= {one.key for one in found}
        return found

    async def read_page(self, query: str) -> PageRead:
        """Return what the page sends along; documents come through the guarded fetch.

        What the agent that asks has read already is not read again.
        """
        if isinstance(self.page, PageRead):
            return self.page
        return await read_page(
            page=self.page,
            query=query,
            scope=self.scope,
            max_tokens=self.config.page_tokens,
            timeout_s=self.config.page_timeout_s,
        )

    async def search(self, query: str, top_k: int) -> FoundHits:
        """Search the agent's stores on another thread."""
        return await run_blocking(
            search_agent_stores,
            query=query,
            scope=self.scope,
            stores=self.stores,
            config=self.config,
            top_k=top_k,
        )

    async def rerank(self, query: str, hits: Sequence[Hit]) -> RerankedHits:
        """Rank by the chat model, which a stop ends at once, or by the endpoint."""
        method, timeout_s = self.config.rerank, self.config.rerank_timeout_s
        if ranks_without_chat(method=method):
            ranked = await run_external(
                rerank_hits, query=query, hits=hits, method=method, timeout_s=timeout_s
            )
            return RerankedHits(ranked, method)
        request = ranking_request(query=query, hits=hits, model=self.chat.id, timeout_s=timeout_s)
        reply = await self.ask(request)
        ranked = apply_ranking_answer(answer=reply.text, hits=hits, method=method)
        return RerankedHits(ranked, method, ranked[0].score if method == "llm" else None)

    async def store_facts(self, query: str) -> str:
        """Return what the database says of the stores, if that is asked."""
        if not self.stores or parse_store_question(query) is None:
            return ""
        return await run_blocking(
            answer_store_question, question=query, scope=self.scope, stores=self.stores
        )

"""What the house lends the steps of an answer: history, search, models, events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from agents.core.agent_config import AgentConfig
from agents.core.pipeline import Found, Reordered
from agents.core.state import Turn
from agents.services.apart import in_rows, in_threads
from agents.services.chat_search import search_stores
from rag.core.access import Scope
from rag.core.errors import ProviderTimeoutError
from rag.core.hits import Hit
from rag.core.ports import ChatModel, ChatRequest
from rag.core.types import ChatReply
from rag.services.can_write import can_write
from rag.services.count_tokens import count_tokens
from rag.services.rerank import ranked_by, ranking_request, rerank_hits, uses_endpoint
from rag.services.stand_alone import stand_alone
from rag.services.store_facts import store_facts

Emit = Callable[[str, Mapping[str, Any]], Awaitable[None]]
History = Callable[[], tuple[list[Turn], str]]


@dataclass(slots=True)
class ChatRun:
    """``agents.core.pipeline.PipelineRun`` on our own services, with the rights of ``scope``."""

    config: AgentConfig
    chat: ChatModel
    scope: Scope
    stores: Sequence[Any]
    emit: Emit
    history: History
    temperature: float = 0.7
    prompt: str = ""
    usage: dict[str, int] = field(default_factory=dict)

    @property
    def model_id(self) -> str:
        """Return the model as ``provider:model``."""
        return self.chat.id

    @property
    def can_write(self) -> bool:
        """Return whether the model writes, and does not only quote."""
        return can_write(model_id=self.chat.id)

    @property
    def can_rank(self) -> bool:
        """Return whether an endpoint, or a model that writes, can rank as the config wants."""
        return uses_endpoint(method=self.config.rerank) or self.can_write

    def count_tokens(self, text: str) -> int:
        """Return the number of o200k tokens."""
        return count_tokens(text)

    async def load_history(self) -> tuple[list[Turn], str]:
        """Return the turns before this question and the summary of what was before them."""
        return await in_rows(self.history)

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
            ranked = await in_threads(
                rerank_hits, query=query, hits=hits, method=method, timeout_s=timeout_s
            )
            return Reordered(ranked, method)
        request = ranking_request(query=query, hits=hits, model=self.chat.id, timeout_s=timeout_s)
        reply = await self.ask(request)
        ranked = ranked_by(answer=reply.text, hits=hits, method=method)
        return Reordered(ranked, method, ranked[0].score if method == "llm" else None)

    async def store_facts(self, query: str) -> str:
        """Return what the database says of the stores, if that is asked."""
        return await in_threads(store_facts, question=query, scope=self.scope, stores=self.stores)

    async def join_question(self, query: str, before: str) -> tuple[str, str]:
        """Return the question made to stand alone by rules."""
        return stand_alone(query=query, before=before)

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Return a whole answer within the request's time; cancelling ends the model's work."""
        texts, last = [], ChatReply("", self.chat.id)
        pieces: Any = self.stream(request)
        try:
            async with asyncio.timeout(request.timeout_s), aclosing(pieces):
                async for last in pieces:
                    texts.append(last.text)
        except TimeoutError:
            raise ProviderTimeoutError(
                "The model {model} did not answer within {timeout_s} s.",
                hint="Try again, or choose a faster model.",
                model=self.chat.id, timeout_s=f"{request.timeout_s:g}",
            ) from None  # fmt: skip
        return ChatReply("".join(texts), last.model or self.chat.id, last.finish_reason)

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        """Yield the pieces as they come and add up their tokens."""
        pieces: Any = self.chat.stream(request)
        async with aclosing(pieces):
            async for piece in pieces:
                for name in ("input_tokens", "output_tokens"):
                    if (n := getattr(piece, name)) is not None:
                        self.usage[name] = self.usage.get(name, 0) + n
                yield piece

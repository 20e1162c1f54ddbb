"""A chat model as an answer asks it. In: requests. Out: replies, their tokens added up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from rag.core.errors import ProviderTimeoutError
from rag.core.ports import ChatModel, ChatRequest
from rag.core.types import ChatReply, Message
from rag.services.can_write import can_write
from rag.services.count_tokens import count_tokens


@dataclass(slots=True, kw_only=True)
class AskedModel:
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
    def ending(self) -> dict[str, str]:
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

    async def told(
        self, system: str, user: str, *, max_tokens: int = 1024, timeout_s: float = 60.0,
        options: Mapping[str, Any] | None = None,
    ) -> str:  # fmt: skip
        """Return what the model says to two texts, as steadily as it can; else as ``ask``."""
        messages = [Message("system", system), Message("user", user)]
        request = ChatRequest(
            messages, temperature=0.0, max_tokens=max_tokens, timeout_s=timeout_s,
            options=options or {},
        )  # fmt: skip
        return (await self.ask(request)).text

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        """Yield the pieces as they come and add up their tokens."""
        pieces: Any = self.chat.stream(request)
        async with aclosing(pieces):
            async for piece in pieces:
                for name in ("input_tokens", "output_tokens"):
                    if (n := getattr(piece, name)) is not None:
                        self.usage[name] = self.usage.get(name, 0) + n
                self.finish_reason = piece.finish_reason or self.finish_reason
                yield piece

"""A model that is told two texts: steady, within its limits, and its tokens are counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from agents.chat.agents.answer_context import MeteredModel
from rag.core.errors import ProviderTimeoutError
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply, Message


@dataclass
class Listening:
    """A chat model that keeps what it was asked."""

    id: str = "test:listening"
    asked: list[ChatRequest] = field(default_factory=list)
    is_hanging: bool = False

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        self.asked.append(request)
        if self.is_hanging:
            await asyncio.Event().wait()
        for text in ("Thirty", " days"):
            yield ChatReply(text, self.id)
        yield ChatReply("", self.id, "stop", 7, 2)


async def test_two_texts_are_asked_without_chance_and_counted() -> None:
    chat = Listening()
    model = MeteredModel(chat=chat)  # type: ignore[arg-type]
    assert await model.complete("Sum it up.", "<turn>hi</turn>") == "Thirty days"
    (request,) = chat.asked
    assert request.messages == [Message("system", "Sum it up."), Message("user", "<turn>hi</turn>")]
    assert (request.temperature, request.max_tokens, request.timeout_s) == (0.0, 1024, 60.0)
    assert request.options == {} and model.usage == {"input_tokens": 7, "output_tokens": 2}
    await model.complete("a", "b", max_tokens=256, timeout_s=30.0, schema={"type": "object"})
    last = chat.asked[-1]
    assert (last.max_tokens, last.timeout_s, last.schema) == (256, 30.0, {"type": "object"})
    assert model.usage == {"input_tokens": 14, "output_tokens": 4}


async def test_its_time_ends_what_it_says() -> None:
    model = MeteredModel(chat=Listening(is_hanging=True))  # type: ignore[arg-type]
    with pytest.raises(ProviderTimeoutError, match="test:listening did not answer within 0.01 s"):
        await model.complete("a", "b", timeout_s=0.01)
    assert model.usage == {}

"""A model's answer, told while it comes. In: a model, a request. Out: the whole answer."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from rag.core.ports import ChatModel, ChatRequest
from rag.core.types import ChatReply

# Who reads a stream sees no difference to single pieces, and each costs a row.
PIECE_S = 0.1


async def stream_answer(
    model: ChatModel, request: ChatRequest, tell: Callable[[str], Awaitable[None]]
) -> ChatReply:
    """Return the answer; ``tell`` is given its text, the first piece at once, then by tenths."""
    stream: Any = model.stream(request)
    texts, waiting, last, told_at = [], "", ChatReply(""), 0.0
    async with aclosing(stream):
        async for last in stream:
            texts.append(last.text)
            waiting += last.text
            if waiting and time.monotonic() - told_at >= PIECE_S:
                await tell(waiting)
                waiting, told_at = "", time.monotonic()
    if waiting:
        await tell(waiting)
    return ChatReply(
        "".join(texts), last.model or model.id, last.finish_reason, last.input_tokens,
        last.output_tokens, last.notice,
    )  # fmt: skip

"""A chat model that calls tools, for tests: it is given its turns and records what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from rag.core.ports import ChatRequest
from rag.core.types import ChatReply, ToolUse

# A text, calls, both, or what goes wrong.
Said = str | tuple[Any, ...] | Exception


def call(name: str, id: str = "c1", /, **arguments: Any) -> ToolUse:
    """Return a call of a tool."""
    return ToolUse(id, name, arguments)


def calls(*made: ToolUse) -> tuple[ToolUse, ...]:
    """Return one turn of calls."""
    return made


class Calling:
    """Says its turns one after another; the last one again and again. ``pause_s`` is between the
    pieces of the first."""

    def __init__(self, *turns: Any, has_tools: bool = True, id: str = "test:calls") -> None:
        self.id, self.has_tools = id, has_tools
        self._turns = list(turns)
        self.tokens, self.pause_s = (10, 5), 0.0
        self.requests: list[ChatRequest] = []

    def generate(self, request: ChatRequest) -> ChatReply:
        raise AssertionError("agents stream")

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        """Yield a turn: a text in pieces, or calls; a function makes one of the request."""
        turn = self._turns[min(len(self.requests), len(self._turns) - 1)]
        self.requests.append(request)
        said: Said = turn(request) if callable(turn) else turn
        if isinstance(said, Exception):
            raise said
        words, asked = said if _has_words(said) else ("", said)
        text = said if isinstance(said, str) else str(words)
        for at in range(0, len(text), 7):
            yield ChatReply(text[at : at + 7], model=self.id)
            await asyncio.sleep(self.pause_s if len(self.requests) == 1 else 0)
        made: Any = () if isinstance(said, str) else asked
        yield ChatReply("", self.id, "stop", *self.tokens, tool_calls=made)


def _has_words(said: Any) -> bool:
    return isinstance(said, tuple) and bool(said) and isinstance(said[0], str)

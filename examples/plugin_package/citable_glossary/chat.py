"""Chat provider ``first_source``: answers with the first numbered text and nothing else."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator
from dataclasses import dataclass

from rag.core.options import option
from rag.core.plugins import register
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply


@register("chat")
class FirstSource:
    """The model ``first_source:whole``."""

    name = "first_source"
    label = "First source"
    # It writes nothing of its own, so nobody asks it to judge or to rank.
    only_quotes = True

    @dataclass(frozen=True)
    class Options:
        prefix: str = option("It is written: ", help="Before the text.")

    def __init__(self, options: Options) -> None:
        self.options = options

    def load(self, model: str) -> FirstSourceModel:
        """Return the chat model of this name."""
        return FirstSourceModel(f"first_source:{model}", self.options.prefix)


class FirstSourceModel:
    """Quotes the first passage of a request."""

    has_tools = False

    def __init__(self, id: str, prefix: str) -> None:
        self.id, self._prefix = id, prefix

    def generate(self, request: ChatRequest) -> ChatReply:
        """Return the quote."""
        if not request.passages:
            return ChatReply("Nothing is written.", self.id, "stop")
        document, text = request.passages[0]
        quote = html.escape(text)
        cited = f'<cite doc_id="{document}" quote="{quote}">{quote}</cite>'
        return ChatReply(f"{self._prefix}{cited}", self.id, "stop")

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        """Yield the quote as one piece."""
        yield self.generate(request)

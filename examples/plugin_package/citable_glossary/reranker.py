"""Reranker ``word_overlap``: texts that share most of the question's words come first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rag.core.options import option
from rag.core.plugins import register


@register("reranker")
class WordOverlap:
    """The share of the question's words that stand in a text."""

    name = "word_overlap"
    label = "Word overlap"

    @dataclass(frozen=True)
    class Options:
        min_letters: int = option(3, help="Shorter words do not count.", minimum=1, maximum=20)

    def __init__(self, options: Options) -> None:
        self.options = options

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Return the share for each text, in their order."""
        wanted = self._words(query)
        return [len(wanted & self._words(text)) / max(1, len(wanted)) for text in texts]

    def _words(self, text: str) -> set[str]:
        words = re.findall(r"\w+", text.casefold())
        return {word for word in words if len(word) >= self.options.min_letters}

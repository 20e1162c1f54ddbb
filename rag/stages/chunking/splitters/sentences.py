"""Splitter ``sentences``: whole sentences up to the chunk size, for any text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rag.core.plugins import register
from rag.core.splitters import ChunkSpan, SplitRequest
from rag.stages.chunking.pack import pack_sentences


@register("splitter")
class SentenceSplitter:
    """Whole sentences up to the chunk size. Sections, lists with their lead, tables and code stay
    together where they fit."""

    name, label = "sentences", "General"

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def split(self, request: SplitRequest) -> Iterator[ChunkSpan]:
        """Yield spans of at most the rule's tokens."""
        return pack_sentences(request)

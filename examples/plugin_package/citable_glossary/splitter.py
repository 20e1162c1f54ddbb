"""Splitter ``paragraphs``: every paragraph is a chunk, long ones are cut between words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rag.core.options import option
from rag.core.plugins import register
from rag.core.splitters import ChunkSpan, SplitRequest


@register("splitter")
class Paragraphs:
    """Blank lines end chunks."""

    name = "paragraphs"
    label = "Paragraphs"

    @dataclass(frozen=True)
    class Options:
        blank_lines: int = option(1, help="So many blank lines end one.", minimum=1, maximum=5)

    def __init__(self, options: Options) -> None:
        self._end = re.compile(rf"\n(?:[ \t]*\n){{{options.blank_lines},}}")

    def split(self, request: SplitRequest) -> Iterator[ChunkSpan]:
        """Yield each paragraph in pieces of at most the rule's tokens."""
        text, start = request.document.text, request.start
        ends = [match.start() for match in self._end.finditer(text, request.start, request.end)]
        for end in [*ends, request.end]:
            while start < end and text[start].isspace():
                start += 1
            while start < end:
                stop = self._stop(request, start, end)
                yield ChunkSpan(start, start, stop)
                start = stop
                while start < end and text[start].isspace():
                    start += 1

    def _stop(self, request: SplitRequest, start: int, end: int) -> int:
        """Return where the piece ends that begins at ``start``."""
        text, most = request.document.text, request.rule.max_tokens
        # A token is rarely longer; what is too long is halved until it fits.
        stop = min(end, start + 24 * most)
        while request.tokenizer.count(text[start:stop].rstrip()) > most and stop - start > 1:
            middle = start + (stop - start) // 2
            space = text.rfind(" ", start + 1, middle)
            stop = space if space > start else middle
        return start + len(text[start:stop].rstrip()) or stop

"""Splitter ``slides``: presentations, one slide or page a chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rag.core.plugins import register
from rag.core.splitters import ChunkSpan, SplitRequest
from rag.stages.chunking.pack import MAX_TITLE, pack_parts


@register("splitter")
class SlideSplitter:
    """Splitter for presentations."""

    name, label = "slides", "Slides"
    description = "One slide or page a chunk. What goes on with a full one carries its first line."
    # A slide may begin with its number, above its title.
    crosses_headings = True

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def split(self, request: SplitRequest) -> Iterator[ChunkSpan]:
        """Yield spans within pages; a text without pages is cut as whole sentences."""
        return pack_parts(request, _pages(request))


def _pages(request: SplitRequest) -> Iterator[tuple[int, str]]:
    text = request.document.text
    for page in sorted(request.document.pages, key=lambda one: one.start):
        if request.start <= page.start < request.end:
            first = text[page.start : page.end].strip().split("\n", 1)[0].strip("#* \t")
            yield page.start, first if len(first) <= MAX_TITLE else ""

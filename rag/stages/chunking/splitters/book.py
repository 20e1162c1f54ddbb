"""Splitter ``book``: chapters and their sections, in novels and manuals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rag.core.plugins import register
from rag.core.splitters import ChunkSpan, SplitRequest
from rag.stages.chunking.pack import (
    heading_marks,
    line_marks,
    line_pattern,
    pack_parts,
    parts_with_body,
)

_MAX_LEVEL = 2
_NUMBER = "[0-9零〇一二三四五六七八九十百千两]{1,6}"
_CHAPTER = line_pattern(
    rf"第\s*{_NUMBER}\s*[章回卷部篇集](?=[\s:：、.《]|[^\s，。；,;的]{{1,30}}(?:[\n\f]|$))"
    r"|(?:序[言章]?|前言|引子|楔子|后记|尾声|番外|附录)"
    r"(?=[ \t\u3000一二三四五六七八九十A-Z0-9]{0,3}(?:[\n\f]|$))"
    r"|(?i:chapter|part|book)[ \t]+(?:\d{1,3}|[ivxlc]{1,7}|[A-Z][a-z]{2,11})"
    r"(?=[\s:.–—-]*(?:[\n\f]|$)|[ \t]*[:.–—-][ \t]*\S)"
    r"|(?i:prologue|epilogue|foreword|preface|afterword)(?=[ \t]*(?:[\n\f]|$))"
)


@register("splitter")
class BookSplitter:
    """Splitter for novels and manuals."""

    name, label = "book", "Book"
    description = (
        "Chapters begin chunks. Chapters and sections are never mixed, and what goes on "
        "with one carries its title."
    )

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def split(self, request: SplitRequest) -> Iterator[ChunkSpan]:
        """Yield spans within chapters, as lines such as “Chapter 3” or 第三章 begin them."""
        chapters = line_marks(request, _CHAPTER)
        headings = heading_marks(request, _MAX_LEVEL)
        return pack_parts(request, parts_with_body(request, headings, chapters))

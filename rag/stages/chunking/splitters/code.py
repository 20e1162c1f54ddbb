"""Splitter ``code``: programs, one function or class a chunk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rag.core.plugins import register
from rag.core.splitters import ChunkSpan, SplitRequest
from rag.stages.chunking.pack import MAX_TITLE, pack_parts

_BLANK = re.compile(r"\n[ \t]*\n\s*?(?=\S)")
_INNER = re.compile(r"\n[ \t]+\S")
_SAID = re.compile(r"(?:#|//|/\*|\*|--|@|\[|;)")


@register("splitter")
class CodeSplitter:
    """Splitter for programs."""

    name, label = "code", "Code"
    description = (
        "One function or class a chunk, with the comments above it. What goes on with a "
        "long one carries its first line."
    )

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def split(self, request: SplitRequest) -> Iterator[ChunkSpan]:
        """Yield a span for each part of a block of code that begins at the margin."""
        return pack_parts(request, _functions(request))


def _functions(request: SplitRequest) -> Iterator[tuple[int, str]]:
    """Yield where functions begin; lines without a body of their own join what follows them."""
    text, outline = request.document.text, request.outline
    for block in outline.blocks("code", request.start, request.end):
        start = block.start
        yield start, _first_line(text, start, block.end)
        for blank in _BLANK.finditer(text, start, block.end):
            at = blank.end()
            if outline.begins_part(at) and _INNER.search(text, start, at):
                yield at, _first_line(text, at, block.end)
                start = at
        yield block.end, ""


def _first_line(text: str, start: int, end: int) -> str:
    """Return the line that declares: the first that is no comment and no decorator."""
    for line in text[start : min(end, start + 20 * MAX_TITLE)].split("\n"):
        if line.strip() and not _SAID.match(line.strip()) and not line.startswith("```"):
            return line.strip() if len(line) <= MAX_TITLE else ""
    return ""

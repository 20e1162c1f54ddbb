"""Splitter ``paper``: sections of every level, the abstract and the references by themselves."""

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

_SECTION = line_pattern(
    r"(?i:abstract|introduction|related work|background|methods?|materials and methods|results"
    r"|discussion|conclusions?|acknowledge?ments?|references|bibliography|appendix(?: [A-Z])?)"
    r"(?=[ \t:.—–-]*(?:[\n\f]|$))"
    r"|[【\[]?(?:摘\s*要|关\s*键\s*词|引\s*言|绪\s*论|结\s*论|结\s*语|致\s*谢|参\s*考\s*文\s*献|附\s*录)"
    r"[】\]]?(?=[ \t\u3000:：]*(?:[\n\f]|$))"
    r"|[1-9]\d?(?:\.[1-9]\d?){0,3}\.?[ \t\u3000]+[A-Z\u4e00-\u9fff]"
    r"(?=[^\n\f.。,，;；]{1,60}(?:[\n\f]|$))"
)
_WITH_TEXT = line_pattern(
    r"(?i:abstract|keywords)(?=[ \t]*[:.—–-][ \t]*\S)"
    r"|[【\[]?(?:摘\s*要|关\s*键\s*词)[】\]]?(?=[ \t\u3000]*[:：][ \t]*\S)"
)


@register("splitter")
class PaperSplitter:
    """Splitter for papers and reports."""

    name, label = "paper", "Paper"
    description = (
        "Sections of every level begin chunks, also the abstract and the references. What "
        "goes on with a section carries its title."
    )

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def split(self, request: SplitRequest) -> Iterator[ChunkSpan]:
        """Yield spans within sections, told by headings, by usual names or by numbers."""
        headings, sections = heading_marks(request, 6), line_marks(request, _SECTION)
        begun = line_marks(request, _WITH_TEXT, is_label=True)
        return pack_parts(request, parts_with_body(request, begun, headings, sections))

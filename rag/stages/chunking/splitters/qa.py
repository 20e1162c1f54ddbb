"""Splitter ``qa``: questions with their answers, one pair a chunk."""

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
from rag.stages.chunking.splitters.rows import row_parts

_QUESTION = line_pattern(
    r"(?:[QＱ]|(?i:question)|问题?|提问)[ \t]*"
    r"(?:\d{1,4}|[一二三四五六七八九十]{1,3})?[ \t]*[:：.．、]"
)
_MARKS = ("?", "？")


@register("splitter")
class QuestionAnswerSplitter:
    """Splitter for lists of questions."""

    name, label = "qa", "Questions and answers"
    description = (
        "One question with its answer a chunk: rows of a sheet, Q: and A:, 问： and 答：, and "
        "headings that ask."
    )

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def split(self, request: SplitRequest) -> Iterator[ChunkSpan]:
        """Yield a span for each pair; a long one is cut and its parts carry the question."""
        asked = (mark for mark in heading_marks(request, 6) if mark[1].endswith(_MARKS))
        pairs = parts_with_body(request, asked, line_marks(request, _QUESTION))
        return pack_parts(request, sorted({*pairs, *row_parts(request, has_header=_has_header)}))


def _has_header(header: str) -> bool:
    """Return whether a sheet's first row names its columns instead of asking."""
    return not any(cell.strip().endswith(_MARKS) for cell in header.split("|"))

"""Splitter ``laws``: laws, regulations and contracts, an article a chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rag.core.plugins import register
from rag.core.splitters import ChunkSpan, SplitRequest
from rag.stages.chunking.pack import (
    Mark,
    heading_marks,
    line_marks,
    line_pattern,
    pack_parts,
    parts_with_body,
)

_NUMBER = "[0-9零〇一二三四五六七八九十百千两]{1,7}"
# What a sentence goes on with that only mentions an article.
_MENTION = (
    r"(?!\s*(?:of|and|or|to|shall|is|are|does|applies|apply|may|in|on|also|thereof|Abs|Satz|Nr|und"
    r"|gilt)\b)(?![,;]|\s*\()"
)
_ARTICLE = line_pattern(
    rf"第\s*{_NUMBER}\s*条(?:\s*之\s*[一二三四五六七八九十]{{1,3}})?(?![的之第至、和及与或规所])"
    rf"|(?i:article|art\.|clause)[ \t]+(?:\d{{1,4}}[a-z]?|[IVXLC]{{1,7}})\b{_MENTION}"
    rf"|§[ \t]*\d{{1,4}}(?:\.\d{{1,4}})?[a-z]?\b{_MENTION}"
    rf"|(?:Section|SECTION|Sec\.|SEC\.)[ \t]+\d{{1,5}}[A-Z]?\b{_MENTION}"
)
_CHAPTER = line_pattern(
    rf"第\s*{_NUMBER}\s*[编章节](?=[\s\u3000]|[^\s，。；]{{1,30}}(?:[\n\f]|$))|附\s*则(?=\s)"
    r"|(?i:chapter|title|part)[ \t]+(?:\d{1,3}|[IVXLC]{1,7})\b(?=[^\n\f]{0,80}(?:[\n\f]|$))"
)
_ENDS = '。；;：:.！!？?)）”"*|'


@register("splitter")
class LawSplitter:
    """Splitter for laws, regulations and contracts."""

    name, label = "laws", "Laws and regulations"
    description = (
        "One article a chunk: 第…条, Article 5, § 5. The heading of a chapter joins its "
        "first article, and what goes on with a long article carries its number."
    )

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def split(self, request: SplitRequest) -> Iterator[ChunkSpan]:
        """Yield spans within articles."""
        articles = _begun(request, line_marks(request, _ARTICLE, is_label=True))
        chapters = line_marks(request, _CHAPTER)
        headings = heading_marks(request, 6)
        return pack_parts(request, parts_with_body(request, articles, chapters, headings))


def _begun(request: SplitRequest, marks: Iterator[Mark]) -> Iterator[Mark]:
    """Yield the marks that no line before goes on to: a page's width may break it there."""
    text = request.document.text
    for mark in marks:
        start = mark[0]
        before = text[max(0, start - 200) : start]
        line = before.rstrip().rsplit("\n", 1)[-1]
        is_apart = before.count("\n", len(before.rstrip())) > 1 or len(line) < 40
        if not line or line[-1] in _ENDS or is_apart or request.outline.heading_end(start):
            yield mark

"""Bookmarks as headings. In: a PDF's bookmarks and its pages' text. Out: headings by position."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rag.core.documents import Block, Page
from rag.stages.parse.headings import numbered_headings

_DEPTH = re.compile(r"\d{1,2}((?:\.\d{1,2})+)(?!\d)")
_NUMBER = re.compile(
    r"[ \t]*(?:[\dA-Z]{1,3}(?:\.\d{1,3})*\.?|[IVX]{1,5}\.?|第.{1,5}[章节節])?[ \t]*"
)


def place_bookmarks(
    bookmarks: Iterable[tuple[str, int, int]], pages: Sequence[Page], texts: Sequence[str]
) -> tuple[Block, ...]:
    """Return headings where a bookmark's title stands on its page, and numbered chapters.

    A bookmark is (title, level from 1, index of its page); white space makes no difference. A
    title that its page does not hold is left out: a heading is a span of the text.
    """
    found: dict[int, Block] = {}
    for title, level, index in bookmarks:
        if not 0 <= index < len(pages):
            continue
        taken = {start for start in found if start >= pages[index].start}
        for start, end in _spans(texts[index], title):
            at = pages[index].start + start
            if at not in taken:
                found[at] = Block("heading", at, pages[index].start + end, _level(title, level))
                break
    placed = [found[start] for start in sorted(found)]
    chapters = [
        Block(block.kind, page.start + block.start, page.start + block.end, block.level)
        for page, text in zip(pages, texts, strict=True)
        for block in numbered_headings(text)
        if text[block.start] in "第CP"  # In a page, 1.1 may be a row of a table.
    ]
    free = [c for c in chapters if not any(p.start < c.end and c.start < p.end for p in placed)]
    return tuple(sorted([*placed, *free], key=lambda block: block.start))


def _level(title: str, level: int) -> int:
    depth = _DEPTH.match(title)
    return min(6, max(level, depth.group(1).count(".") + 1 if depth else 1))


def _spans(text: str, title: str) -> Iterator[tuple[int, int]]:
    """Yield where the title stands, lines of its own first, with the number before it."""
    letters = "".join(title.split())
    if not letters:
        return
    pattern = re.compile(r"\s*".join(map(re.escape, letters)), re.I)
    inside: list[tuple[int, int]] = []
    for match in pattern.finditer(text):
        line = text.rfind("\n", 0, match.start()) + 1
        stop = text.find("\n", match.end())
        rest = text[match.end() : stop if stop >= 0 else len(text)]
        if _NUMBER.fullmatch(text, line, match.start()) and not rest.strip():
            begin = line + len(text[line : match.end()]) - len(text[line : match.end()].lstrip())
            yield begin, match.end()
        else:
            inside.append(match.span())
    yield from inside

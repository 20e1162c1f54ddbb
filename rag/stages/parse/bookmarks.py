"""PDF bookmarks as headings at their place in the text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from rag.core.documents import Block, Page
from rag.stages.parse.headings import numbered_headings

_DEPTH = re.compile(r"\d{1,2}((?:\.\d{1,2})+)(?!\d)")
# What a page prints before a title and its bookmark leaves out: 1.2, B., 第三章, Chapter 3:.
_NUMBER = re.compile(
    r"\s*(?:[\dA-Z]{1,3}(?:\.\d{1,3})*\.?|[IVX]{1,5}\.?|第.{1,5}[编章節节條条]"
    r"|[A-Z]\w+ \d{1,3}[.:]?)?\s*"
)
_NOTHING = re.compile(r"[^\S\n]*(?:\n|\Z)")


def place_bookmarks(
    bookmarks: Iterable[tuple[str, int, int]], pages: Sequence[Page], text: str
) -> tuple[Block, ...]:
    """Return headings in order: bookmarks, and chapters that the text alone numbers.

    A bookmark is (title, level from 1, index of its page). It becomes a heading where its title
    stands on that page, whatever the white space, width and forms of its letters; a title that the
    page does not hold is left out, since a heading is a span of the text.
    """
    found: dict[int, Block] = {}
    squeezed: dict[int, _Squeezed] = {}  # That of one page: a thousand would fill the memory.
    for title, level, index in bookmarks:
        letters = _squeeze(title)[0]
        if not letters or not 0 <= index < len(pages):
            continue
        page = pages[index]
        if index not in squeezed:
            squeezed = {index: _Squeezed(text[page.start : page.end])}
        for start, end in squeezed[index].spans(letters):
            at = page.start + start
            if not any(_overlap(block, at, page.start + end) for block in found.values()):
                found[at] = Block("heading", at, page.start + end, _level(title, level))
                break
    # Without bookmarks all numbers count; beside them only chapters, which may have none.
    numbered = [b for b in numbered_headings(text) if b.level == 1 or not found]
    free = [n for n in numbered if not any(_overlap(b, n.start, n.end) for b in found.values())]
    return tuple(sorted([*found.values(), *free], key=lambda block: block.start))


def _overlap(block: Block, start: int, end: int) -> bool:
    return block.start < end and start < block.end


def _level(title: str, level: int) -> int:
    depth = _DEPTH.match(title)
    return min(6, max(level, depth[1].count(".") + 1 if depth else 1))


class _Squeezed:
    """A page's text without white space and letter forms, with the way back."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.squeezed, self.places = _squeeze(text)

    def spans(self, letters: str) -> list[tuple[int, int]]:
        """Return where the title stands: its lines with their number, else words of a line."""
        whole, inside = [], []
        for at in _positions(self.squeezed, letters):
            start, end = self.places[at], self.places[at + len(letters) - 1] + 1
            line = self.text.rfind("\n", 0, start) + 1
            if _NUMBER.fullmatch(self.text, line, start) and _NOTHING.match(self.text, end):
                lead = self.text[line:end]
                whole.append((end - len(lead.lstrip()), end))
            else:
                inside.append((start, end))
        return whole or inside


def _positions(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _squeeze(text: str) -> tuple[str, list[int]]:
    out: list[str] = []
    places: list[int] = []
    for index, character in enumerate(text):
        for part in unicodedata.normalize("NFKC", character).casefold():
            if not part.isspace() and part.isprintable():
                out.append(part)
                places.append(index)
    return "".join(out), places

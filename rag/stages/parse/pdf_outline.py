"""Bookmarks to headings. In: a PDF with its text. Out: blocks where the titles stand."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pypdfium2 as pdfium

from rag.core.documents import Block, Page
from rag.stages.parse.headings import numbered_headings

MAX_BOOKMARKS = 5_000
MAX_DEPTH = 6
# What a page prints before a title that its bookmark leaves out: 1.2, Chapter 3, 第三章.
_NUMBER = re.compile(
    r"\s*(?:[\dIVXA-Z]{1,4}(?:\.\d{1,3})*\.?|第.{1,5}[编章节条]|\w+ \d{1,3}[.:]?)\s*$"
)


def outline_blocks(
    document: pdfium.PdfDocument, pages: Sequence[Page], text: str
) -> tuple[Block, ...]:
    """Return headings in order: bookmarks, and chapters that the text alone numbers."""
    marked = list(_bookmarks(document, pages, text))
    numbered = list(numbered_headings(text))
    if not marked:
        return tuple(numbered)
    chapters = [block for block in numbered if block.level == 1]
    if any(_overlap(mark, chapter) for mark in marked for chapter in chapters):
        return tuple(marked)
    if chapters:
        marked = [replace(mark, level=min(6, mark.level + 1)) for mark in marked]
    return tuple(sorted([*marked, *chapters], key=lambda block: block.start))


def _overlap(first: Block, second: Block) -> bool:
    return first.start < second.end and second.start < first.end


def _bookmarks(document: pdfium.PdfDocument, pages: Sequence[Page], text: str) -> Iterator[Block]:
    """Yield a heading for each bookmark whose title stands on the page that it points to."""
    squeezed: dict[int, _Squeezed] = {}
    found: dict[int, Block] = {}
    reached: dict[int, int] = {}
    for n_seen, item in enumerate(document.get_toc(max_depth=MAX_DEPTH)):
        if n_seen >= MAX_BOOKMARKS:
            break
        target = item.get_dest()
        index = target.get_index() if target else None
        title = _squeeze(item.get_title())[0]
        if not title or index is None or not 0 <= index < len(pages):
            continue
        page = pages[index]
        if index not in squeezed:
            squeezed[index] = _Squeezed(text[page.start : page.end])
        span = squeezed[index].find(title, reached.get(index, 0))
        if span:
            reached[index] = span[1]
            start, end = page.start + span[0], page.start + span[1]
            found.setdefault(start, Block("heading", start, end, min(6, item.level + 1)))
    last = 0
    for start in sorted(found):
        if start >= last:
            last = found[start].end
            yield found[start]


class _Squeezed:
    """A page's text without white space and letter forms, with the way back."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.squeezed, self.places = _squeeze(text)

    def find(self, title: str, after: int) -> tuple[int, int] | None:
        """Return where ``title`` stands: as a line of its own if it does, after ``after`` if so."""
        spans = list(self._spans(title))
        best = [span for span in spans if span[2]] or spans
        ahead = [span for span in best if span[0] >= after] or best
        return ahead[0][:2] if ahead else None

    def _spans(self, title: str) -> Iterator[tuple[int, int, bool]]:
        at = self.squeezed.find(title)
        while at >= 0:
            start, end = self.places[at], self.places[at + len(title) - 1] + 1
            line = self.text.rfind("\n", 0, start) + 1
            before, _, _ = self.text[end:].partition("\n")
            prefix = self.text[line:start]
            is_title = not before.strip() and (not prefix.strip() or bool(_NUMBER.match(prefix)))
            if is_title:
                start = line + len(prefix) - len(prefix.lstrip())
            yield start, end, is_title
            at = self.squeezed.find(title, at + 1)


def _squeeze(text: str) -> tuple[str, list[int]]:
    out: list[str] = []
    places: list[int] = []
    for index, character in enumerate(text):
        folded = unicodedata.normalize("NFKC", character).casefold()
        for part in folded:
            if not part.isspace() and part.isprintable():
                out.append(part)
                places.append(index)
    return "".join(out), places

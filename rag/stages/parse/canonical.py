"""Canonical text builder: blocks in reading order as one string with exact positions."""

from __future__ import annotations

from dataclasses import replace

from rag.core.documents import Block, Notice, Page, ParsedDocument
from rag.stages.detect.clean import clean_text

MAX_CHARS = 20_000_000


class CanonicalText:
    """Collects blocks and pages; texts are cleaned, blank ones dropped, pages joined by ``\\f``.

    Text beyond ``max_chars`` is left out and a warning says so.
    """

    def __init__(self, max_chars: int = MAX_CHARS) -> None:
        self.warnings: list[Notice] = []
        self._left = self._max = max_chars
        self._parts: list[str] = []
        self._length = 0
        self._blocks: list[Block] = []
        self._pages: list[Page] = []
        self._open_page: tuple[str, int] | None = None

    def add(self, kind: str, text: str, level: int = 0, *, goes_on: bool = False) -> None:
        """Add a block; levels are those of headings, 1 to 6.

        ``goes_on`` makes it a part of the last block, which a page's end has broken.
        """
        text = clean_text(text).replace("\f", "\n").strip("\n")
        if not text.strip() or self._left <= 0:
            return
        if len(text) > self._left:
            text = text[: self._left].rstrip()
            self.warnings.append(Notice("Only the first {n} characters are kept.", n=self._max))
            self._left = 0
        self._left -= len(text)
        if self._length > (self._open_page[1] if self._open_page else 0):
            self._write("\n\n")
        start = self._length
        self._write(text)
        last = self._blocks[-1] if self._blocks else None
        if goes_on and last and last.kind == kind:
            self._blocks[-1] = replace(last, end=self._length)
        else:
            self._blocks.append(Block(kind, start, self._length, min(6, level)))

    def start_page(self, label: str) -> None:
        """Begin a page, slide or sheet; what was added before belongs to the one before."""
        if self._open_page is not None:
            self._close_page()
            self._write("\f")
        self._open_page = (clean_text(label).strip()[:80], self._length)

    def finish(
        self, kind: str, parser: str, *, encoding: str = "", title: str = ""
    ) -> ParsedDocument:
        """Return the document."""
        if self._open_page is not None:
            self._close_page()
        return ParsedDocument(
            kind,
            "".join(self._parts),
            parser,
            tuple(self._pages),
            tuple(self._blocks),
            encoding,
            " ".join(clean_text(title).split())[:200],
            tuple(self.warnings),
        )

    def _close_page(self) -> None:
        label, start = self._open_page or ("", 0)
        number = len(self._pages) + 1
        self._pages.append(Page(number, label or str(number), start, self._length))

    def _write(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

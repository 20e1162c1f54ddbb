"""PDF text: pages as one canonical text, with what breaks at a page's end made whole.

A sentence, a word or a table that goes on over the page goes on in the text: running heads are
left out, notes at the foot stand before the sentence that is broken.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rag.core.documents import Block, Page
from rag.stages.detect.clean import clean_text
from rag.stages.parse.pdf_layout.flow import ReadPage
from rag.stages.parse.pdf_layout.paragraphs import Paragraph
from rag.stages.parse.pdf_layout.tables import Table, join_lines
from rag.stages.parse.table_grid import table_row
from rag.stages.text.sentences import sentence_spans

_ENDED = re.compile(r"[。！？；：.!?:;…][”’」』）\"')\]⁰¹²³⁴-⁹]*$")
_HYPHEN = re.compile(r"(?<=[^\W\d_])[-‐\x02]$")
_REST = re.compile(r"[a-zß-öø-ÿ][^\W\d_]*[.,;:!?)\]”’\"']*")
_NOTE = re.compile(r"(?:[*†‡§¹²³⁰⁴-⁹①-⑳]|\(?\d{1,3}[.)]?\s|\[\d{1,3}\])")
_SMALL = 0.93
_ALIKE = 4.0
_APART = 0.7


class PdfText:
    """Collects pages in order."""

    def __init__(self) -> None:
        self.pages: list[Page] = []
        self.tables: list[Block] = []
        self.length = 0
        self._parts: list[str] = []
        self._last: Paragraph | Table | None = None

    @property
    def text(self) -> str:
        """Return the text of all pages, joined by form feeds."""
        return "\f".join(self._parts)

    def add_page(self, page: ReadPage, label: str) -> None:
        """Add a page that is laid out."""
        items = _notes_first([item for item in page.items if _written(item).strip()])
        if self._parts and items:
            self._mend(items)
        start = self.length + bool(self._parts)
        text = ""
        for at, item in enumerate(items):
            if isinstance(item, Table):
                is_more = isinstance(self._last, Table) and goes_on_with(self._last, item)
                text += self._between(items[at - 1] if text else None, item)
                self._add_table(item, start + len(text), is_more=is_more)
            elif text:
                text += self._between(items[at - 1], item)
            text += _written(item)
            self._last = item
        self.length = start + len(text)
        has_text = page.state in ("full", "blank")
        number = len(self.pages) + 1
        place = (number, label, start, self.length, has_text, page.margin)
        self.pages.append(Page(*place, page.confidence))
        self._parts.append(text)

    def _add_table(self, table: Table, start: int, *, is_more: bool) -> None:
        end = start + len(_written(table))
        if is_more:
            block = self.tables[-1]
            self.tables[-1] = Block("table", block.start, end, block.level)
        else:
            self.tables.append(
                Block("table", start, end, len(table.head) if len(table.head) > 1 else 0)
            )

    @staticmethod
    def _between(last: Paragraph | Table | None, item: Paragraph | Table) -> str:
        return "" if last is None else _line_ends(last, item)

    def _mend(self, items: list[Paragraph | Table]) -> None:
        """Make whole on the last page what goes on at the beginning of this one."""
        last, first = self._last, items[0]
        if isinstance(last, Table) and isinstance(first, Table) and goes_on_with(last, first):
            self._mend_row(last, first)
        elif isinstance(last, Paragraph) and isinstance(first, Paragraph):
            self._mend_word(first, items)

    def _mend_row(self, last: Table, first: Table) -> None:
        """Put the rest of a row that a page breaks where the row begins."""
        row, below = first.rows[0], last.rows[-1]
        is_rest = not row[0] and any(row) and all(b for a, b in zip(row, below, strict=True) if a)
        if not is_rest or sum(map(bool, row)) > max(1, len(row) // 2) or len(first.rows) < 2:
            return
        merged = [join_lines([b, a]) if a else b for a, b in zip(row, below, strict=True)]
        old = clean_text(table_row(below))
        if self._parts[-1].endswith(old) and self.tables[-1].end == self.pages[-1].end:
            self._replace_end(len(old), clean_text(table_row(merged)))
            table = self.tables[-1]
            self.tables[-1] = Block("table", table.start, self.length, table.level)
            del first.rows[0]

    def _mend_word(self, first: Paragraph, items: list[Paragraph | Table]) -> None:
        broken = _HYPHEN.search(self._parts[-1])
        rest = _REST.match(first.text)
        if not broken or not rest:
            return
        self._replace_end(1, clean_text(rest[0]))
        left = first.text[rest.end() :].lstrip()
        if left:
            items[0] = Paragraph(left, first.first, first.last)
        else:
            del items[0]

    def _replace_end(self, n_old: int, new: str) -> None:
        page = self.pages[-1]
        self._parts[-1] = self._parts[-1][: len(self._parts[-1]) - n_old] + new
        self.length = page.start + len(self._parts[-1])
        self.pages[-1] = replace(page, end=self.length)


def merge_blocks(headings: Sequence[Block], tables: Sequence[Block]) -> tuple[Block, ...]:
    """Return headings and tables in order, without headings inside of tables."""
    starts = [table.start for table in tables]

    def is_free(heading: Block) -> bool:
        at = bisect_right(starts, heading.end - 1) - 1
        return at < 0 or tables[at].end <= heading.start

    free = [heading for heading in headings if is_free(heading)]
    return tuple(sorted([*free, *tables], key=lambda block: block.start))


def _written(item: Paragraph | Table) -> str:
    if isinstance(item, Table):
        return "\n".join(clean_text(table_row(row)).replace("\f", " ") for row in item.rows)
    # A hyphen that ends a page may be a word's.
    text = item.text[:-1] + "-" if item.text.endswith("\x02") else item.text
    return clean_text(text).replace("\f", "\n")


def _line_ends(last: Paragraph | Table, item: Paragraph | Table) -> str:
    """Return one line end, or two where a gap shows that another part begins."""
    if isinstance(last, Table) or isinstance(item, Table):
        return "\n\n"
    gap = item.first.top - last.last.bottom
    size = max(item.first.size, last.last.size)
    is_apart = gap > _APART * size or abs(item.first.size - last.last.size) > 0.1 * size
    return "\n\n" if is_apart and gap > -size else "\n"


def goes_on_with(last: Table, table: Table) -> bool:
    """Return whether a table goes on with the one before, and drop the header it repeats.

    Its columns lie below the other's, or beside them in the next column of the page.
    """
    n_columns = len(last.rows[0])
    if n_columns != len(table.rows[0]) or len(last.edges) != len(table.edges):
        return False
    width = last.right - last.left
    moves = sorted(b[0] - a[0] for a, b in zip(last.edges, table.edges, strict=True))
    shift = moves[len(moves) // 2]
    if abs(shift) < width:
        shift = 0.0
    for a, b in zip(last.edges, table.edges, strict=True):
        left, right = a[0] + shift - b[0], a[1] + shift - b[1]
        is_inside = (
            left < _ALIKE and right > -_ALIKE
            if last.has_grid and not table.has_grid
            else (min(abs(left), abs(right), abs(left + right) / 2) < _ALIKE)
        )
        if not is_inside:
            return False
    n_head = len(last.head)
    if table.head is last.head:
        return True
    if table.rows[:n_head] == last.head and len(table.rows) > n_head:
        # The header is repeated for the eye; each chunk has it anyway.
        del table.rows[:n_head]
    elif table.has_own_header and last.has_own_header:
        return False
    table.head = last.head
    return True


def _notes_first(items: list[Paragraph | Table]) -> list[Paragraph | Table]:
    """Return the items with the notes at a page's foot before the sentence that it breaks off."""
    n_letters: Counter[float] = Counter()
    for item in items:
        if isinstance(item, Paragraph):
            n_letters[round(item.last.size, 1)] += len(item.text)
    if not n_letters:
        return items
    at = len(items)
    usual = max(n_letters, key=lambda size: n_letters[size])
    while at > 0:
        item = items[at - 1]
        if not isinstance(item, Paragraph) or item.last.size > _SMALL * usual:
            break
        at -= 1
    notes = items[at:]
    # The first of them has a mark; what follows may go on with it.
    if not notes or at == 0 or not _NOTE.match(notes[0].text):  # type: ignore[union-attr]
        return items
    body = items[at - 1]
    if not isinstance(body, Paragraph) or _ENDED.search(body.text):
        return items
    spans = sentence_spans(body.text)
    cut = spans[-1][0] if spans else 0
    before = [Paragraph(body.text[:cut].rstrip(), body.first, body.last)] if cut else []
    return [*items[: at - 1], *before, *notes, Paragraph(body.text[cut:], body.first, body.last)]

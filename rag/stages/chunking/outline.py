"""Document outline: sections, heading paths, tables and pages by position."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice

from rag.core.documents import Block, ParsedDocument
from rag.stages.text.sentences import sentence_ends

_MAX_TITLE = 200
_ROW = re.compile(r"[^\n\f]+")
_ROW_END = re.compile(r"[\n\f]\s*$")
_MAX_GAP = 20
_MAX_INDENT = 200
# A list's items may follow its lead, and a table its caption, behind a blank line.
_MAX_BREAKS = 3
_MAX_LEAD, _MAX_CAPTION, _MAX_LIST = 400, 300, 4000
_COLONS = (":", "：")
_ITEM = re.compile(
    r"[ \t]*(?:[-*+•●·■◦▪–][ \t]*"
    r"|[（(]?(?:\d{1,3}|[a-z]|[ivx]{2,4}|[一二三四五六七八九十]{1,3})(?:[)）、][ \t]*|\.[ \t]+))\S"
)
_CAPTION = re.compile(
    r"[ \t#*]*(?:(?:Table|Tab\.|Exhibit)\s*[\dA-Z]|附?表\s*[\d一二三四五六七八九十A-Z])"
)
# A title page or line before the first heading says too little to stand alone.
_MAX_PREFACE = 80


class Outline:
    """Answers by position: which section, headings, table and page a character belongs to."""

    def __init__(self, document: ParsedDocument) -> None:
        self._text = document.text
        self._blocks = sorted(document.blocks, key=_start)
        self._headings = [b for b in self._blocks if b.kind == "heading" and b.level > 0]
        self._parents = _parents(self._headings)
        self._pages = sorted(document.pages, key=lambda page: page.start)

    def sections(self) -> Iterator[tuple[int, int]]:
        """Yield the spans between top-level headings.

        One of mere headings, and a short preface, join the next.
        """
        cuts = [h.start for h in self._headings if h.level == 1 and h.start > 0]
        start = last = 0
        for end in [*cuts, len(self._text)]:
            if end == len(self._text) or self._has_body(last, end):
                yield start, end
                start = end
            last = end

    def _has_body(self, start: int, end: int) -> bool:
        position = start
        for at in range(bisect_right(self._headings, start - 1, key=_start), len(self._headings)):
            heading = self._headings[at]
            if heading.start >= end or self._text[position : heading.start].strip():
                break
            position = max(position, heading.end)
        body = self._text[position:end].strip()
        is_preface = self._headings[0].start >= end
        return len(body) > _MAX_PREFACE if is_preface else bool(body)

    def heading_starts(self, start: int, end: int) -> Iterator[int]:
        """Yield where headings in ``(start, end)`` begin, the last one first.

        Of headings that follow each other at once only the first counts.
        """
        at = bisect_right(self._headings, end - 1, key=_start) - 1
        while at >= 0 and self._headings[at].start > start:
            heading = self._headings[at]
            at -= 1
            above = self._headings[at] if at >= 0 else None
            is_first = above is None or bool(self._text[above.end : heading.start].strip())
            if is_first or above is None or above.start <= start:
                yield heading.start

    def headings(self, start: int, end: int) -> Iterator[Block]:
        """Yield the headings that begin in ``[start, end)``, in order."""
        return _between(self._headings, start, end)

    def blocks(self, kind: str, start: int, end: int) -> Iterator[Block]:
        """Yield the blocks of a kind that have a part in ``[start, end)``, in order."""
        first = max(0, bisect_right(self._blocks, start, key=_start) - 1)
        for block in islice(self._blocks, first, None):
            if block.start >= end:
                break
            if block.kind == kind and block.end > start:
                yield block

    def heading_end(self, position: int) -> int | None:
        """Return the end of the heading that ``position`` lies in."""
        heading = _last(self._headings, position)
        return heading.end if heading and position < heading.end else None

    def path(self, start: int, end: int) -> tuple[str, ...]:
        """Return the titles above the first text in ``[start, end)`` that is no heading."""
        position = start
        while position < end and (after := self.heading_end(position)):
            position = after
            while position < end and self._text[position].isspace():
                position += 1
        position = min(position, end - 1)
        if self._headings and position < self._headings[0].start < end:
            return self.path(self._headings[0].start, end)
        path: list[str] = []
        at = bisect_right(self._headings, position, key=_start) - 1
        while at >= 0:
            path.append(self.title(self._headings[at]))
            at = self._parents[at]
        return tuple(filter(None, reversed(path)))

    def title(self, heading: Block) -> str:
        """Return the words of a heading, up to 200 characters."""
        raw = self._text[heading.start : min(heading.end, heading.start + _MAX_TITLE)]
        words = raw.split()
        if words and words[0].strip("#") == "" and len(words[0]) <= 6:
            words = words[1:]
        return " ".join(words)

    def table_at(self, position: int) -> Block | None:
        """Return the table that ``position`` lies in."""
        block = _last(self._blocks, position)
        is_table = block is not None and block.kind == "table" and position < block.end
        return block if is_table else None

    def code_at(self, position: int) -> Block | None:
        """Return the block of code, or of a log, that ``position`` lies within."""
        block = _last(self._blocks, position - 1)
        is_within = block is not None and block.kind == "code" and position < block.end
        return block if is_within else None

    def ends_line(self, position: int) -> bool:
        """Return whether a line ends in the white space at ``position``."""
        return "\n" in self._text[slice(*self._gap(position))]

    def begins_part(self, position: int) -> bool:
        """Return whether a function or the like begins behind the line that ends there."""
        start, end = self._gap(position)
        is_apart = self._text.count("\n", start, end) > 1
        return is_apart and self._text[end - 1] == "\n" and self._text[end : end + 1] not in "})]"

    def _gap(self, position: int) -> tuple[int, int]:
        start = end = position
        while start > 0 and self._text[start - 1].isspace() and position - start < _MAX_INDENT:
            start -= 1
        while end < len(self._text) and self._text[end].isspace() and end - position < _MAX_INDENT:
            end += 1
        return start, end

    def header(self, table: Block) -> tuple[int, int]:
        """Return the span of the table's header: its first row, or as many as its level says."""
        end = table.start
        for row in islice(_ROW.finditer(self._text, table.start, table.end), max(1, table.level)):
            end = row.end()
        return table.start, end

    def is_lead_end(self, position: int) -> bool:
        """Return whether a list stands behind its lead there, or a table beside its caption."""
        text, size = self._text, len(self._text)
        last = position
        while last > 0 and text[last - 1].isspace():
            last -= 1
        start, end = text.rfind("\n", 0, last) + 1, text.find("\n", last)
        end = size if end < 0 else end
        if position < end - 1 or end == size:
            # Amid a line: the table comes behind the whole caption.
            return self._is_caption(start, end) and self._is_table_next(end)
        if text[last - 1 : last] in _COLONS and self._is_enumerated(last, position):
            return True
        if self._is_table_next(last):
            return self._is_caption(start, last)
        table = self.table_at(max(0, last - 1))
        if table is None:
            return False
        end = text.find("\n", position)
        end = size if end < 0 else end
        return self._is_caption(position, end) and not self._is_table_next(end)

    def _is_caption(self, start: int, end: int) -> bool:
        return end - start <= _MAX_CAPTION and bool(_CAPTION.match(self._text, start, end))

    def _is_table_next(self, position: int) -> bool:
        start = self._next(position)
        table = self.table_at(start)
        return table is not None and table.start >= position

    def _is_enumerated(self, last: int, position: int) -> bool:
        if self._text.count("\n", last, position) > _MAX_BREAKS:
            return False
        block = _last(self._blocks, position)
        is_next = block is not None and block.start >= last and block.kind in ("list", "table")
        return is_next or bool(_ITEM.match(self._text, position))

    def _next(self, position: int) -> int:
        low = position
        while position < len(self._text) and self._text[position].isspace():
            position += 1
        is_near = self._text.count("\n", low, position) <= _MAX_BREAKS
        return position if is_near else low

    def carried_at(self, position: int, low: int) -> tuple[int, int]:
        """Return the span of what the text there goes on with, from ``low`` on; empty for none.

        That is a table's header, or the sentence that leads to a list.
        """
        table = self.table_at(position)
        if table is not None:
            start, end = self.header(table)
            return (start, end) if position >= end else (position, position)
        first = self._list_start(position, low)
        last = first
        while last > low and self._text[last - 1].isspace():
            last -= 1
        if first >= position or self._text[last - 1 : last] not in _COLONS:
            return position, position
        start = begin = max(low, last - _MAX_LEAD)
        for end in sentence_ends(self._text, begin, last):
            if end < last:
                start = end
        return start, last

    def _list_start(self, position: int, low: int) -> int:
        """Return where the list begins that ``position`` lies in; ``position`` without one."""
        block = _last(self._blocks, position)
        if block is not None and block.kind == "list" and block.start < position < block.end:
            return max(low, block.start)
        start, at = position, position
        if not _ITEM.match(self._text, position):
            return position
        low = max(low, position - _MAX_LIST)
        while at > low and (line := self._text.rfind("\n", low, at - 1) + 1) > low:
            if not self._text[line:at].strip():
                break
            if _ITEM.match(self._text, line):
                start = line
            at = line
        return start

    def table_lead(self, table: Block) -> int:
        """Return where the headings, or the caption, begin that stand directly above a table."""
        start = table.start
        while start > 0:
            last = start
            while last > 0 and self._text[last - 1].isspace():
                last -= 1
            line = self._text.rfind("\n", 0, last) + 1
            line = max(line, self._text.rfind("\f", 0, last) + 1)
            is_above = self.heading_end(line) or self._is_caption(line, last)
            if not is_above or line >= last:
                break
            start = line
        return start

    def is_in_row(self, position: int) -> bool:
        """Return whether ``position`` parts a table's row."""
        table = self.table_at(position - 1)
        if table is None or position >= table.end:
            return False
        before = self._text[max(table.start, position - _MAX_GAP) : position]
        return not _ROW_END.search(before)

    def kinds(self, start: int, end: int) -> tuple[str, ...]:
        """Return the kinds of the blocks in ``[start, end)``, each once, in order."""
        at = max(0, bisect_right(self._blocks, start, key=_start) - 1)
        kinds: dict[str, None] = {}
        while at < len(self._blocks) and self._blocks[at].start < end:
            if self._blocks[at].end > start:
                kinds[self._blocks[at].kind] = None
            at += 1
        return tuple(kinds)

    def page_at(self, position: int) -> int | None:
        """Return the number of the page that ``position`` lies on, None without pages."""
        if not self._pages:
            return None
        at = bisect_right(self._pages, position, key=lambda page: page.start) - 1
        return self._pages[max(0, at)].number


def _parents(headings: Sequence[Block]) -> list[int]:
    """Return for each heading the number of the one above it, -1 for the top."""
    parents: list[int] = []
    open_ones: list[int] = []
    for number, heading in enumerate(headings):
        while open_ones and headings[open_ones[-1]].level >= heading.level:
            open_ones.pop()
        parents.append(open_ones[-1] if open_ones else -1)
        open_ones.append(number)
    return parents


def _start(block: Block) -> int:
    return block.start


def _between(blocks: Sequence[Block], start: int, end: int) -> Iterator[Block]:
    at = bisect_left(blocks, start, key=_start)
    while at < len(blocks) and blocks[at].start < end:
        yield blocks[at]
        at += 1


def _last(blocks: Sequence[Block], position: int) -> Block | None:
    at = bisect_right(blocks, position, key=_start) - 1
    return blocks[at] if at >= 0 else None

"""Word table cells: which are of a header, go on from above, or reach to the right."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag.stages.parse.pdf_layout.tables import figure_share
from rag.stages.parse.table_grid import MAX_SPAN

# At the end of a cell: of a header (h), going on from above (v), how many columns it is wide, and
# how many its row leaves out before it.
_MARK = re.compile(r"\s*␌⇲(h?)(v?)(\d*)(?:b(\d+))?⟐")
_MAX_HEAD = 3


class CellMarks:
    """Follows the tables of a document; what stands within a cell of another has no marks."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_head = self._is_below = False
        self._width = self._before = ""

    @property
    def is_outermost(self) -> bool:
        """Return whether this is within a table, and not within one of its cells' tables."""
        return self._depth == 1

    def start(self, tag: str, value: str, parent: str) -> None:
        """Note the beginning of an element; ``value`` is that of its attribute ``val``."""
        if tag == "tbl":
            self._depth += 1
        if self._depth != 1:
            return
        if tag == "tr":
            self._is_head, self._before = False, ""
        elif tag == "gridBefore" and parent == "trPr" and value.isdecimal() and len(value) < 3:
            self._before = f"b{value}" if int(value) else ""
        elif tag == "tc":
            self._is_below, self._width = False, ""
        elif tag == "tblHeader" and parent == "trPr":
            self._is_head = value not in ("0", "false", "off")
        elif tag == "vMerge" and parent == "tcPr":
            self._is_below = value != "restart"
        elif tag == "gridSpan" and parent == "tcPr" and value.isdecimal() and len(value) < 4:
            self._width = value if int(value) > 1 else ""

    def end(self, tag: str) -> str:
        """Note the end of an element and return the mark of a cell."""
        mark = ""
        if tag == "tc" and self._depth == 1:
            told = f"{'h' * self._is_head}{'v' * self._is_below}{self._width}{self._before}"
            mark = f"␌⇲{told}⟐" if told else ""
            self._before = ""
        elif tag == "tbl":
            self._depth -= 1
        return mark


def marked_rows(
    rows: Sequence[Sequence[str]], break_mark: str
) -> tuple[tuple[tuple[str, ...], ...], int]:
    """Return rows without marks, with merged cells on each row, and how many are the header.

    In a header a wide cell stands in each of its columns. ``break_mark`` is that of a page's end.
    """
    out: list[list[str]] = []
    wide: list[list[tuple[int, int]]] = []
    n_marked, is_leading = 0, True
    for row in map(_in_columns, rows):
        found = [_MARK.search(cell) for cell in row]
        texts = [_MARK.sub("", cell) for cell in row]
        for column, mark in enumerate(found):
            if mark and mark[2] and out and not texts[column].replace(break_mark, "").strip():
                above = out[-1][column] if column < len(out[-1]) else ""
                texts[column] += above.replace(break_mark, "")
        is_leading = is_leading and any(mark and mark[1] for mark in found)
        n_marked += is_leading
        spans = [(n, int(mark[3])) for n, mark in enumerate(found) if mark and mark[3]]
        out.append(texts)
        wide.append(spans)
    n_head = min(n_marked, _MAX_HEAD) if n_marked < len(out) else 0
    if not n_head:
        n_head = 1
        while n_head < min(_MAX_HEAD, len(out) - 1) and wide[n_head - 1]:
            if figure_share(out[n_head]) > 0.4:
                break
            n_head += 1
    for row, spans in zip(out[:n_head], wide, strict=False):
        for column, width in spans:
            end = min(column + min(width, MAX_SPAN), len(row))
            row[column + 1 : end] = [row[column]] * (end - column - 1)
    return tuple(map(tuple, out)), n_head


def _in_columns(row: Sequence[str]) -> list[str]:
    """Return the row with the cells that it leaves out at its beginning as empty ones."""
    mark = _MARK.search(row[0]) if row else None
    n_before = min(int(mark[4] or 0), MAX_SPAN) if mark else 0
    cells = [*[""] * n_before, *row]
    while n_before and not cells[-1]:
        cells.pop()
        n_before -= 1
    return cells

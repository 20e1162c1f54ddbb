"""PDF tables: cells as text, and which lines are rows of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rag.stages.parse.pdf_layout.lines import Piece, is_wide

# Of the usual step from row to row: lines that are nearer are of cells that are centred.
_AMID = 0.6
FIGURE = re.compile(r"[-–+(]?[$€£¥]?[\d.,'’ ]*\d[\d.,'’ ]*\s?[%‰)]?$")


@dataclass(slots=True)
class Table:
    """Rows of cells; ``head`` are those of its header, which it may leave out when it goes on.

    ``edges`` are where the columns begin and end.
    """

    rows: list[list[str]]
    head: list[list[str]]
    edges: tuple[tuple[float, float], ...]
    left: float
    top: float
    right: float
    bottom: float
    order: int
    has_grid: bool = False

    @property
    def has_own_header(self) -> bool:
        """Return whether the first row names columns of figures."""
        if self.rows[:1] != self.head[:1] or len(self.rows) < 3:
            return False
        columns = [
            column
            for column in range(len(self.rows[0]))
            if figure_share([row[column] for row in self.rows[1:] if column < len(row)]) > 0.6
        ]
        return bool(columns) and not any(FIGURE.match(self.rows[0][c]) for c in columns)


def join_lines(lines: Sequence[str]) -> str:
    """Return the lines of a cell as one; between Han characters stands no space."""
    out = lines[0]
    for line in lines[1:]:
        is_closed = out[-1:] == "\x02" or (is_wide(out[-1:]) and is_wide(line[:1]))
        out += ("" if is_closed else " ") + line
    return out


def cell_texts(rows: list[list[list[list[Piece]]]]) -> list[list[str]]:
    return [[_joined(cell) for cell in row] for row in rows]


def _joined(lines: Sequence[Sequence[Piece]]) -> str:
    return join_lines([cell_text(line) for line in lines]) if lines else ""


def cell_text(cell: Sequence[Piece]) -> str:
    return " ".join(piece.text for piece in cell)


def n_header_rows(rows: list[list[str]], spanned: int) -> int:
    """Return how many rows are the header, of which ``spanned`` reach over several columns."""
    n_head = min(spanned + 1, 3) if spanned else 1
    if len(rows) <= n_head:
        return 1
    # A row of figures is none of the header.
    while n_head > 1 and figure_share(rows[n_head - 1]) > 0.4:
        n_head -= 1
    return n_head


def figure_share(row: Sequence[str]) -> float:
    filled = [cell for cell in row if cell]
    return sum(bool(FIGURE.match(cell)) for cell in filled) / max(1, len(filled))


def merge_lines(
    placed: list[list[list[Piece]]], starts: Sequence[bool]
) -> list[list[list[list[Piece]]]]:
    """Return rows of cells of lines: lines that only go on with the cells above are joined."""
    out: list[list[list[list[Piece]]]] = []
    for row, is_start in zip(placed, starts, strict=True):
        if is_start:
            out.append([[cell] if cell else [] for cell in row])
            continue
        for column, cell in enumerate(row):
            if cell:
                out[-1][column].append(cell)
    return out


def row_starts(middles: Sequence[float], placed: Sequence[Sequence[list[Piece]]]) -> list[bool]:
    """Return which lines begin a row: wider steps part rows, else the first cell begins them."""
    steps = [b - a for a, b in pairwise(middles)]
    # Cells that are centred beside each other may stand half a line apart.
    closest = sorted(steps)[len(steps) // 4] if steps else 0.0
    wide = [step > 1.15 * closest for step in steps]
    if sum(wide) >= 0.25 * len(steps) and _are_rows(placed, wide):
        return [True, *wide]
    usual = sorted(steps)[len(steps) // 2] if steps else 0.0
    starts = [True]
    for at, row in enumerate(placed[1:], start=1):
        filled = [column for column, cell in enumerate(row) if cell]
        is_amid = steps[at - 1] < _AMID * usual
        is_more = not row[0] and not wide[at - 1] and _goes_on(row, placed[at - 1], filled)
        is_more = is_more and not (at < len(steps) and steps[at] < _AMID * usual)
        starts.append(not is_amid and not is_more)
    return starts


def _are_rows(placed: Sequence[Sequence[list[Piece]]], wide: Sequence[bool]) -> bool:
    """Return whether lines between wider steps are one row: few of them are full."""
    n_full = sum(all(row) for row in placed)
    if n_full > 0.7 * len(placed):
        return False
    counts: list[Counter[int]] = [Counter()]
    for row, is_wide_step in zip(placed, [False, *wide], strict=True):
        if is_wide_step:
            counts.append(Counter())
        for column, cell in enumerate(row):
            counts[-1][column] += bool(cell) and bool(FIGURE.match(cell_text(cell)))
    # Two figures below each other are not one cell.
    n_doubled = sum(max(count.values(), default=0) > 1 for count in counts)
    return n_doubled <= 0.15 * len(counts)


def _goes_on(
    row: Sequence[list[Piece]], above: Sequence[list[Piece]], filled: Sequence[int]
) -> bool:
    """Return whether a row without a first cell holds the rest of the cells above."""
    if not all(above[column] for column in filled):
        return False
    if any(FIGURE.match(cell_text(row[column])) for column in filled):
        return False
    return len(filled) <= max(1, len(row) // 2)

"""Tables as text: one line a row, merged cells on each of their rows."""

from __future__ import annotations

import re
from collections.abc import Iterable

# The cells of a wide one; more are a page's layout or an attack.
MAX_SPAN = 50
_SPACE = re.compile(r"[ \t\r\n\f]+")
# What makes a row of cells other than a line of them: white space at their ends, or more than one.
_UNEVEN = re.compile(r"[\t\r\n\f]|  | \||\| |^ | $")


class TableGrid:
    """Rows of cells; one that reaches down stands on each of its rows.

    In a header one that reaches to the right stands in each of its columns. ``inner`` are blocks of
    tables within cells, by row and column.
    """

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.inner: dict[tuple[int, int], list[tuple[str, str, int]]] = {}
        # How far cells reach: the last one to the right, and by column down to which row.
        self._n_right = 0
        self._down: dict[int, int] = {}
        self._wide: list[tuple[int, int, int, int]] = []
        self._n_head, self._is_head = 0, True

    def begin_row(self) -> None:
        """Begin a row."""
        self._end_row()
        self.rows.append([])

    def begin_cell(self, n_columns: int = 1, n_rows: int = 1, *, is_head: bool = False) -> None:
        """Begin a cell of this width, of at most 50 columns, and height."""
        if not self.rows:
            self.begin_row()
        row = self.rows[-1]
        row += [""] * self._n_right
        while self._reaches(len(row)):
            row.append(self._above(len(row)))
        self._n_right = min(max(1, n_columns), MAX_SPAN) - 1
        if self._n_right:
            self._wide.append((len(self.rows) - 1, max(1, n_rows), len(row), self._n_right))
        for column in range(len(row), len(row) + self._n_right + 1):
            self._down[column] = len(self.rows) + max(1, n_rows) - 1
        row.append("")
        self._is_head = self._is_head and is_head

    def add_text(self, text: str) -> bool:
        """Add a line to the last cell and return whether there is one."""
        if not self.rows or not self.rows[-1]:
            return False
        self.rows[-1][-1] = f"{self.rows[-1][-1]}\n{text}".strip()
        return True

    def add_inner(self, blocks: list[tuple[str, str, int]]) -> bool:
        """Add blocks of a table to the last cell and return whether there is one."""
        if not self.rows or not self.rows[-1]:
            return False
        place = len(self.rows) - 1, len(self.rows[-1]) - 1
        self.inner.setdefault(place, []).extend(blocks)
        return True

    def finish(self) -> int:
        """Fill the last row and wide cells of the header, and return how many rows that has."""
        self._end_row()
        n_head = self._n_head if self._n_head < len(self.rows) else 0
        for first, n_rows, column, n_right in self._wide:
            for row in self.rows[first : min(first + n_rows, n_head)]:
                row[column + 1 : column + 1 + n_right] = [row[column]] * n_right
        return n_head

    def _end_row(self) -> None:
        if not self.rows:
            return
        row = self.rows[-1]
        row += [""] * self._n_right
        self._n_right = 0
        last = max((c for c in self._down if self._reaches(c)), default=-1)
        for column in range(len(row), last + 1):
            row.append(self._above(column) if self._reaches(column) else "")
        if self._is_head and self._n_head == len(self.rows) - 1:
            self._n_head += 1
        self._is_head = True

    def _reaches(self, column: int) -> bool:
        return self._down.get(column, 0) >= len(self.rows)

    def _above(self, column: int) -> str:
        above = self.rows[-2] if len(self.rows) > 1 else []
        return above[column] if column < len(above) else ""


def _cell(text: str) -> str:
    return _SPACE.sub(" ", text).strip().replace("|", "\\|")


def table_row(cells: Iterable[str]) -> str:
    """Return one line for a row; line ends within cells become spaces, bars are escaped."""
    row = list(cells)
    line = "|".join(row)
    # Nearly all rows are written as they are.
    if line.count("|") >= len(row) or _UNEVEN.search(line):
        return f"| {' | '.join(map(_cell, row))} |"
    return f"| {line.replace('|', ' | ')} |"

"""Tables as text: rows, each merged cell's text once."""

from __future__ import annotations

import re
from collections.abc import Iterable

# The cells of a wide one; more are a page's layout or an attack.
MAX_SPAN = 50
_SPACE = re.compile(r"[ \t\r\n\f]+")


class TableGrid:
    """Rows of cells; those that a cell from the left or from above reaches into are empty."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        # How far cells reach: the last one to the right, and by column down to which row.
        self._n_right = 0
        self._down: dict[int, int] = {}

    def begin_row(self) -> None:
        """Begin a row."""
        self.rows.append([])
        self._n_right = 0

    def begin_cell(self, n_columns: int = 1, n_rows: int = 1) -> None:
        """Begin a cell of this width, of at most 50 columns, and height."""
        if not self.rows:
            self.begin_row()
        row = self.rows[-1]
        row += [""] * self._n_right
        while self._down.get(len(row), 0) >= len(self.rows):
            row.append("")
        self._n_right = min(max(1, n_columns), MAX_SPAN) - 1
        for column in range(len(row), len(row) + self._n_right + 1):
            self._down[column] = len(self.rows) + max(1, n_rows) - 1
        row.append("")

    def add_text(self, text: str) -> bool:
        """Add a line to the last cell and return whether there is one."""
        if not self.rows or not self.rows[-1]:
            return False
        self.rows[-1][-1] = f"{self.rows[-1][-1]}\n{text}".strip()
        return True


def table_row(cells: Iterable[str]) -> str:
    """Return one line for a row; line ends within cells become spaces."""
    return "| " + " | ".join(_SPACE.sub(" ", cell).strip() for cell in cells) + " |"

"""Sheets as text: each a page with its tables, what is hidden left out or marked, and told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rag.core.documents import Notice, ParsedDocument
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.column_bands import table_texts
from rag.stages.parse.spreadsheet.sheet import (
    HIDDEN_MARK,
    NO_VALUE,
    SheetContent,
    visible_rows,
)
from rag.stages.parse.spreadsheet.tables import sheet_tables

# What a process of the sandbox holds: a hundred thousand rows of twenty columns.
MAX_CELLS = 2_000_000


class SheetsText:
    """Collects the sheets of a workbook of any format.

    ``with_hidden`` takes in, and marks, hidden sheets, rows and columns, and comments.
    """

    def __init__(self, *, with_hidden: bool) -> None:
        self.n_left = MAX_CELLS
        self._with_hidden = with_hidden
        self._text = CanonicalText()
        self._left_out: Counter[str] = Counter()
        self._title, self._n_no_value, self._is_cut = "", 0, False

    def begins(self, name: str, *, is_hidden: bool) -> bool:
        """Begin a sheet and return whether it is wanted: ``add`` must follow then."""
        if is_hidden and not self._with_hidden:
            self._left_out["sheets"] += 1
            return False
        self._text.start_page(name)
        self._title = f"{name}{HIDDEN_MARK}" if is_hidden else name
        return True

    def add(self, content: SheetContent, comments: Sequence[tuple[str, str]]) -> None:
        """Add what the sheet holds; ``comments`` are place and text."""
        self.n_left = max(0, self.n_left - content.n_cells)
        self._is_cut = self._is_cut or content.is_cut
        rows, n_rows, n_columns = visible_rows(content, with_hidden=self._with_hidden)
        tables = list(sheet_tables(rows, content.merges))
        if not self._with_hidden:
            self._left_out.update(rows=n_rows, columns=n_columns, comments=len(comments))
            comments = []
        if tables or comments:
            self._text.add("heading", self._title, 1)
        for table in tables:
            self._text.add("paragraph", "\n".join(table.titles))
            for text in table_texts(table.rows, table.n_head):
                self._n_no_value += text.count(NO_VALUE)
                self._text.add("table", text, table.n_head if table.n_head > 1 else 0)
        for place, text in comments:
            self._text.add("paragraph", f"{place}{HIDDEN_MARK} {text}")

    def finish(self, kind: str, parser: str, *, title: str = "") -> ParsedDocument:
        """Return the document."""
        self._text.warnings += self._notices()
        return self._text.finish(kind, parser, title=title)

    def _notices(self) -> Iterator[Notice]:
        if self._left_out.total():
            yield Notice(
                "Hidden in the file and left out: sheets {sheets}, rows {rows}, columns {columns}, "
                "comments {comments}. A setting of the store takes them in.",
                **{of: self._left_out[of] for of in ("sheets", "rows", "columns", "comments")},
            )
        if self._n_no_value:
            yield Notice(
                "Formulas without a stored value: {n}. Open the file in a spreadsheet program and "
                "save it to have their results.",
                n=self._n_no_value,
            )
        if self._is_cut:
            yield Notice("Only the first {n} cells are read.", n=MAX_CELLS)

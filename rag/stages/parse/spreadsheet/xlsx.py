"""Parser for Excel: each sheet a page, its values as Excel shows them."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from rag.core.documents import Notice, ParsedDocument
from rag.stages.detect.file_errors import inconsistent_file
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.column_bands import table_texts
from rag.stages.parse.spreadsheet.sheet import (
    HIDDEN_MARK,
    NO_VALUE,
    read_comments,
    read_sheet,
    visible_rows,
)
from rag.stages.parse.spreadsheet.tables import sheet_tables
from rag.stages.parse.spreadsheet.workbook import Sheet, read_workbook

PARSER = "sheets/1"
# What a process of the sandbox holds: a hundred thousand rows of twenty columns.
MAX_CELLS = 2_000_000


def parse_xlsx(path: Path, name: str, *, with_hidden: bool = False) -> ParsedDocument:
    """Return the sheets' titles and tables; raise DocumentError when the file is damaged.

    ``with_hidden`` takes in, and marks, hidden sheets, rows and columns, and comments.
    """
    try:
        with zipfile.ZipFile(path) as bundle:
            return _Reader(bundle, with_hidden=with_hidden).read()
    except (ValueError, LookupError, ElementTree.ParseError) as error:
        raise inconsistent_file(name) from error


class _Reader:
    def __init__(self, bundle: zipfile.ZipFile, *, with_hidden: bool) -> None:
        self._bundle, self._with_hidden = bundle, with_hidden
        self._book = read_workbook(bundle)
        self._text = CanonicalText()
        self._left_out: Counter[str] = Counter()
        self._n_left, self._n_no_value, self._is_cut = MAX_CELLS, 0, False

    def read(self) -> ParsedDocument:
        """Return the document."""
        for sheet in self._book.sheets:
            if sheet.is_hidden and not self._with_hidden:
                self._left_out["sheets"] += 1
            else:
                self._add(sheet)
        self._text.warnings += self._notices()
        return self._text.finish("xlsx", PARSER, title=self._book.title)

    def _add(self, sheet: Sheet) -> None:
        self._text.start_page(sheet.name)
        content = read_sheet(self._bundle, sheet, self._book, self._n_left)
        self._n_left = max(0, self._n_left - content.n_cells)
        self._is_cut = self._is_cut or content.is_cut
        rows, n_rows, n_columns = visible_rows(content, with_hidden=self._with_hidden)
        tables = list(sheet_tables(rows, content.merges))
        comments = list(read_comments(self._bundle, sheet))
        if not self._with_hidden:
            self._left_out.update(rows=n_rows, columns=n_columns, comments=len(comments))
            comments = []
        if tables or comments:
            mark = HIDDEN_MARK if sheet.is_hidden else ""
            self._text.add("heading", f"{sheet.name}{mark}", 1)
        for table in tables:
            self._text.add("paragraph", "\n".join(table.titles))
            for text in table_texts(table.rows, table.n_head):
                self._n_no_value += text.count(NO_VALUE)
                self._text.add("table", text, table.n_head if table.n_head > 1 else 0)
        for place, text in comments:
            self._text.add("paragraph", f"{place}{HIDDEN_MARK} {text}")

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

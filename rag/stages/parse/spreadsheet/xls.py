"""Parser for Excel 97 to 2003 ([MS-XLS]) through xlrd: values as Excel shows them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from rag.core.documents import ParsedDocument
from rag.stages.detect.file_errors import inconsistent_file, password_protected_file
from rag.stages.parse.spreadsheet.number_format import display_general, display_number
from rag.stages.parse.spreadsheet.sheet import Merge, SheetContent, SheetRow, cell_place
from rag.stages.parse.spreadsheet.sheets_text import SheetsText

_ERRORS = {0: "#NULL!", 7: "#DIV/0!", 15: "#VALUE!", 23: "#REF!", 29: "#NAME?", 36: "#NUM!"}
_NUMBER, _DATE, _BOOLEAN, _ERROR = 2, 3, 4, 5


def parse_xls(path: Path, name: str, *, with_hidden: bool = False) -> ParsedDocument:
    """Return the sheets' titles and tables; raise DocumentError when the file is damaged."""
    import xlrd  # A quarter of a second; no other format needs it.

    written = SheetsText(with_hidden=with_hidden)
    try:
        book = xlrd.open_workbook(path, logfile=StringIO(), formatting_info=True, on_demand=True)
        for number in range(book.nsheets):
            sheet = book.sheet_by_index(number)
            if written.begins(sheet.name, is_hidden=sheet.visibility != 0):
                content = _content(book, sheet, written.n_left)
                written.add(content, list(_comments(sheet)))
            book.unload_sheet(number)
        return written.finish("xls", "xls/1")
    except xlrd.XLRDError as error:
        is_locked = "encrypted" in str(error)
        raise (password_protected_file if is_locked else inconsistent_file)(name) from error
    except (
        *(ValueError, LookupError, AssertionError, struct.error, AttributeError, TypeError),
        xlrd.compdoc.CompDocError,
    ) as error:
        # What xlrd meets in a damaged file it reports in all of these ways.
        raise inconsistent_file(name) from error


def _content(book: Any, sheet: Any, max_cells: int) -> SheetContent:
    content = SheetContent()
    content.hidden_columns = {n for n, info in sheet.colinfo_map.items() if info.hidden}
    # Its ends lie behind the last cell.
    content.merges = [
        Merge(top + 1, left, bottom, right - 1) for top, bottom, left, right in sheet.merged_cells
    ]
    last = 0
    for n in range(sheet.nrows):
        cells = {
            column: text
            for column, cell in enumerate(sheet.row(n))
            if (text := _shown(book, cell)).strip()
        }
        if not cells:
            continue
        content.n_cells += len(cells)
        if content.n_cells > max_cells:
            content.is_cut = True
            break
        info = sheet.rowinfo_map.get(n)
        is_hidden = bool(info is not None and info.hidden)
        content.rows.append(SheetRow(n + 1, cells, is_hidden, n > last and bool(content.rows)))
        last = n + 1
    return content


def _shown(book: Any, cell: Any) -> str:
    if cell.ctype in (_NUMBER, _DATE):
        style = book.xf_list[cell.xf_index] if cell.xf_index is not None else None
        held = book.format_map.get(style.format_key) if style is not None else None
        code = held.format_str if held is not None else ""
        if not code or code in ("@", "General"):
            return display_general(cell.value)
        return display_number(cell.value, code, is_1904=bool(book.datemode))
    if cell.ctype == _BOOLEAN:
        return "TRUE" if cell.value else "FALSE"
    if cell.ctype == _ERROR:
        return _ERRORS.get(cell.value, "#N/A")
    return str(cell.value)


def _comments(sheet: Any) -> Iterator[tuple[str, str]]:
    for (row, column), note in sorted(sheet.cell_note_map.items()):
        yield cell_place(row + 1, column), note.text

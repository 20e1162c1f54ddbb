"""Parser for OpenDocument spreadsheets: values as they are shown, read as a stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from rag.core.documents import ParsedDocument
from rag.stages.detect.file_errors import inconsistent_file
from rag.stages.parse.opendocument.package import (
    attribute,
    local,
    open_part,
    plain_text,
    read_title,
)
from rag.stages.parse.spreadsheet.sheet import NO_VALUE, Merge, SheetContent, SheetRow, cell_place
from rag.stages.parse.spreadsheet.sheets_text import SheetsText

_MAX_COLUMNS = 16_384
# A filled row or cell that is said to come again so often is decoration.
_MAX_REPEATS = 10_000


@dataclass(slots=True)
class _Open:
    """The sheet that is being read."""

    name: str
    is_hidden: bool
    content: SheetContent = field(default_factory=SheetContent)
    comments: list[tuple[str, str]] = field(default_factory=list)
    n_rows: int = 0
    n_columns: int = 0


def parse_ods(path: Path, name: str, *, with_hidden: bool = False) -> ParsedDocument:
    """Return the sheets' titles and tables; raise DocumentError when the file is damaged."""
    written = SheetsText(with_hidden=with_hidden)
    hidden_styles: set[str] = set()
    try:
        with open_part(path, "content.xml") as part:
            sheet: _Open | None = None
            for event, item in ElementTree.iterparse(part, ("start", "end")):
                tag = local(item)
                if event == "start":
                    if tag == "table" and sheet is None:
                        is_hidden = attribute(item, "style-name") in hidden_styles
                        sheet = _Open(attribute(item, "name"), is_hidden)
                elif tag == "style":
                    if any(attribute(one, "display") == "false" for one in item):
                        hidden_styles.add(attribute(item, "name"))
                elif sheet is not None and tag == "table-column":
                    _add_columns(sheet, item)
                elif sheet is not None and tag == "table-row":
                    _add_row(sheet, item, written.n_left)
                    item.clear()
                elif sheet is not None and tag == "table":
                    if written.begins(sheet.name, is_hidden=sheet.is_hidden):
                        written.add(sheet.content, sheet.comments)
                    sheet = None
                    item.clear()
        return written.finish("ods", "ods/1", title=read_title(path))
    except (ValueError, LookupError, ElementTree.ParseError) as error:
        raise inconsistent_file(name) from error


def _add_columns(sheet: _Open, item: ElementTree.Element) -> None:
    n = _count(item, "number-columns-repeated")
    if attribute(item, "visibility") in ("collapse", "filter"):
        last = min(sheet.n_columns + n, _MAX_COLUMNS)
        sheet.content.hidden_columns |= set(range(sheet.n_columns, last))
    sheet.n_columns += n


def _add_row(sheet: _Open, item: ElementTree.Element, max_cells: int) -> None:
    content = sheet.content
    n_repeats, first = _count(item, "number-rows-repeated"), sheet.n_rows + 1
    sheet.n_rows += n_repeats
    cells: dict[int, str] = {}
    column = 0
    for cell in item:
        n = _count(cell, "number-columns-repeated")
        if local(cell) == "table-cell":
            _add_cell(sheet, cell, cells, (first, column), n)
        column += n
    if not cells or content.is_cut:
        return
    is_hidden = attribute(item, "visibility") in ("collapse", "filter")
    last = content.rows[-1].number if content.rows else 0
    for number in range(first, first + min(n_repeats, _MAX_REPEATS)):
        content.n_cells += len(cells)
        content.is_cut = content.n_cells > max_cells
        if content.is_cut:
            return
        is_apart = number == first and number > last + 1 and bool(last)
        content.rows.append(SheetRow(number, dict(cells), is_hidden, is_apart))


def _add_cell(
    sheet: _Open, cell: ElementTree.Element, cells: dict[int, str], place: tuple[int, int], n: int
) -> None:
    row, column = place
    text = "\n".join(plain_text(one) for one in cell if local(one) in ("p", "list"))
    if not text.strip() and attribute(cell, "formula"):
        text = NO_VALUE
    for note in cell:
        if local(note) == "annotation":
            said = "\n".join(plain_text(one) for one in note if local(one) == "p")
            sheet.comments.append((cell_place(row, column), said))
    if not text.strip() or column >= _MAX_COLUMNS:
        return
    for at in range(column, min(column + n, column + _MAX_REPEATS, _MAX_COLUMNS)):
        cells[at] = text
    right = column + _count(cell, "number-columns-spanned") - 1
    bottom = row + _count(cell, "number-rows-spanned") - 1
    if right > column or bottom > row:
        sheet.content.merges.append(Merge(row, column, bottom, right))


def _count(item: ElementTree.Element, name: str) -> int:
    return max(1, int(attribute(item, name) or 1))

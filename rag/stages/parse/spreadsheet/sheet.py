"""Excel sheet: its rows as they are shown, read as a stream."""

from __future__ import annotations

import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from xml.etree import ElementTree

from rag.stages.parse.spreadsheet.number_format import display_general, display_number, display_text
from rag.stages.parse.spreadsheet.workbook import Sheet, Workbook, rich_text

NO_VALUE = "[formula without a stored value]"
HIDDEN_MARK = " [hidden]"
# Excel's last column; what lies beyond is none of its files.
_N_COLUMNS = 16_384
_MAX_MERGES = 100_000
_PLACE = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})$")
_WHOLE = re.compile(r"-?\d{1,15}")


@dataclass(slots=True)
class SheetRow:
    """A row that holds anything: its texts by column; ``is_apart`` tells empty rows above it."""

    number: int
    cells: dict[int, str]
    is_hidden: bool = False
    is_apart: bool = False


@dataclass(frozen=True, slots=True)
class Merge:
    """A cell that reaches over others: its first and last row and column."""

    top: int
    left: int
    bottom: int
    right: int


@dataclass(slots=True)
class SheetContent:
    """What a sheet holds; ``is_cut`` tells that there was more than ``max_cells``."""

    rows: list[SheetRow] = field(default_factory=list)
    hidden_columns: set[int] = field(default_factory=set)
    merges: list[Merge] = field(default_factory=list)
    n_cells: int = 0
    is_cut: bool = False


def read_sheet(
    bundle: zipfile.ZipFile, sheet: Sheet, book: Workbook, max_cells: int
) -> SheetContent:
    """Return the rows of a sheet that hold anything, hidden ones among them."""
    content = SheetContent()
    shown = _Shown(book)
    if sheet.member not in bundle.NameToInfo:
        return content
    with bundle.open(sheet.member) as part:
        for _, item in ElementTree.iterparse(part):
            tag = item.tag.rpartition("}")[2]
            if tag == "row":
                last = content.rows[-1].number if content.rows else 0
                if row := _row(item, shown, last):
                    content.n_cells += len(row.cells)
                    content.is_cut = content.n_cells > max_cells
                    if content.is_cut:
                        break
                    content.rows.append(row)
                item.clear()
            elif tag == "col" and _is_on(item.get("hidden")):
                content.hidden_columns |= _columns(item)
            elif tag == "mergeCell" and len(content.merges) < _MAX_MERGES:
                content.merges += _merges(item.get("ref", ""))
    return content


def read_comments(bundle: zipfile.ZipFile, sheet: Sheet) -> Iterator[tuple[str, str]]:
    """Yield the comments on a sheet's cells: where, and what."""
    if sheet.comments:
        root = ElementTree.fromstring(bundle.read(sheet.comments))
        for item in root.iterfind("{*}commentList/{*}comment"):
            for text in item.iterfind("{*}text"):
                yield item.get("ref", ""), rich_text(text)


def visible_rows(content: SheetContent, *, with_hidden: bool) -> tuple[list[SheetRow], int, int]:
    """Return the rows with merged cells on each, and how many hidden rows and columns there are.

    Hidden ones are left out, or marked: a row at its first cell, a column at its topmost.
    """
    _fill_down(content.rows, content.merges)
    used = {column for row in content.rows for column in row.cells}
    hidden = content.hidden_columns & used
    rows: list[SheetRow] = []
    n_hidden, is_apart, unmarked = 0, False, set(hidden)
    for row in content.rows:
        n_hidden += row.is_hidden
        if with_hidden:
            _mark(row, unmarked)
        else:
            is_apart = is_apart or row.is_apart
            row.cells = {c: text for c, text in row.cells.items() if c not in hidden}
            if row.is_hidden or not row.cells:
                continue
            row.is_apart, is_apart = is_apart, False
        rows.append(row)
    return rows, n_hidden, len(hidden)


def _mark(row: SheetRow, unmarked: set[int]) -> None:
    marked = unmarked & row.cells.keys()
    unmarked -= marked
    for column in marked | ({min(row.cells)} if row.is_hidden else set()):
        row.cells[column] += HIDDEN_MARK


def _fill_down(rows: Sequence[SheetRow], merges: Sequence[Merge]) -> None:
    """Write merged cells on each of their rows; to the right a header alone repeats them."""
    begins: dict[int, list[Merge]] = defaultdict(list)
    for merge in merges:
        if merge.bottom > merge.top:
            begins[merge.top].append(merge)
    down: dict[int, tuple[int, str]] = {}
    for row in rows:
        for column, (bottom, text) in list(down.items()):
            if row.number > bottom:
                del down[column]
            else:
                row.cells.setdefault(column, text)
        for merge in begins.get(row.number, ()):
            if text := row.cells.get(merge.left, ""):
                down[merge.left] = (merge.bottom, text)


class _Shown:
    """What the cells of a workbook show."""

    def __init__(self, book: Workbook) -> None:
        self._strings = book.strings
        self._formats = book.formats
        self._is_1904 = book.is_1904
        # Columns repeat their values.
        self.number: Callable[[str, str], str] = lru_cache(50_000)(self._number)

    def cell(self, cell: ElementTree.Element) -> str:
        stored, has_formula, kind = "", False, cell.get("t", "n")
        for part in cell:
            if part.tag.endswith("}v"):
                stored = part.text or ""
            elif part.tag.endswith("}f"):
                has_formula = True
        if kind == "inlineStr":
            text = "".join(map(rich_text, cell.iterfind("{*}is")))
        elif has_formula and not stored and kind != "str":
            return NO_VALUE
        elif not stored:
            return ""
        elif kind == "n":
            return self.number(stored, cell.get("s", ""))
        elif kind == "b":
            return "TRUE" if _is_on(stored) else "FALSE"
        elif kind == "s":
            text = self._strings[int(stored)] if int(stored) < len(self._strings) else ""
        else:
            text = stored
        code = self._code(cell.get("s", ""))
        return display_text(text, code) if "@" in code else text

    def _code(self, style: str) -> str:
        at = int(style) if style.isdecimal() else 0
        return self._formats[at] if at < len(self._formats) else ""

    def _number(self, stored: str, style: str) -> str:
        code = self._code(style)
        if not code and _WHOLE.fullmatch(stored):
            return stored
        number = float(stored)
        if number != number or number in (float("inf"), float("-inf")):
            return stored
        if not code or code == "@":
            return display_general(number)
        return display_number(number, code, is_1904=self._is_1904)


def _row(item: ElementTree.Element, shown: _Shown, last: int) -> SheetRow | None:
    cells: dict[int, str] = {}
    column = -1
    for cell in item:
        place = cell.get("r", "")
        column = _column(place.rstrip("0123456789")) if place else column + 1
        if (text := shown.cell(cell)) and text.strip() and 0 <= column < _N_COLUMNS:
            cells[column] = text
    if not cells:
        return None
    place = item.get("r", "")
    number = int(place) if place.isdecimal() else last + 1
    is_hidden = _is_on(item.get("hidden")) or item.get("ht") == "0"
    return SheetRow(number, cells, is_hidden, number > last + 1)


@lru_cache(_N_COLUMNS)
def _column(letters: str) -> int:
    number = 0
    for letter in letters[:4]:
        number = number * 26 + ord(letter.upper()) - 64
    return number - 1


def cell_place(row: int, column: int) -> str:
    """Return a place as it is written, such as B2; rows count from 1, columns from 0."""
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return f"{letters}{row}"


def _columns(item: ElementTree.Element) -> set[int]:
    first, last = (int(item.get(name, "0")) for name in ("min", "max"))
    return set(range(max(0, first - 1), min(last, _N_COLUMNS)))


def _merges(ref: str) -> Iterator[Merge]:
    first, last = (_PLACE.match(place) for place in (ref.split(":") * 2)[:2])
    if first and last:
        yield Merge(int(first[2]), _column(first[1]), int(last[2]), _column(last[1]))


def _is_on(value: str | None) -> bool:
    return value in ("1", "true")

"""Excel files made up cell by cell, with styles, formulas and what is hidden or merged."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from xml.sax.saxutils import escape, quoteattr

from tests import hostile_files

S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
MAIN = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"


@dataclass(frozen=True, slots=True)
class Styled:
    """A number with the code of its format."""

    value: float
    code: str


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula, mostly without a stored value."""

    text: str
    value: str = ""


Cell = str | float | bool | Styled | Formula | None


@dataclass(slots=True)
class SheetSpec:
    """A sheet; rows and columns count from 1, ``merges`` are such as ``A3:A6``."""

    name: str
    rows: Sequence[Sequence[Cell]]
    state: str = "visible"
    hidden_rows: Sequence[int] = ()
    hidden_columns: Sequence[int] = ()
    merges: Sequence[str] = ()
    comments: dict[str, str] = field(default_factory=dict)


def replaced(data: bytes, old: str, new: str) -> bytes:
    """Return an Office file in whose parts one text stands for another."""
    with zipfile.ZipFile(BytesIO(data)) as bundle:
        return hostile_files.zipped(
            {
                name: bundle.read(name).replace(old.encode(), new.encode())
                for name in bundle.namelist()
            }
        )


def column_letters(number: int) -> str:
    """Return the name of a column, counted from 1."""
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def workbook_file(*sheets: SheetSpec, is_1904: bool = False) -> bytes:
    """Return an Excel file of the sheets."""
    codes: list[str] = []
    parts: dict[str, str | bytes] = {}
    listed = links = ""
    for n, sheet in enumerate(sheets, start=1):
        parts[f"xl/worksheets/s{n}.xml"] = _sheet(sheet, codes)
        listed += f'<sheet name={quoteattr(sheet.name)} sheetId="{n}" r:id="rId{n}" state="{sheet.state}"/>'
        links += f'<Relationship Id="rId{n}" Type="{hostile_files.OFFICE}/worksheet" Target="worksheets/s{n}.xml"/>'
        if sheet.comments:
            parts |= _comments(n, sheet)
    formats = "".join(
        f'<numFmt numFmtId="{164 + n}" formatCode={quoteattr(code)}/>'
        for n, code in enumerate(codes)
    )
    styles = '<xf numFmtId="0"/>' + "".join(
        f'<xf numFmtId="{164 + n}"/>' for n in range(len(codes))
    )
    links += f'<Relationship Id="styles" Type="{hostile_files.OFFICE}/styles" Target="styles.xml"/>'
    parts["xl/styles.xml"] = (
        f'<styleSheet xmlns="{S}"><numFmts>{formats}</numFmts><cellXfs>{styles}</cellXfs></styleSheet>'
    )
    parts["xl/workbook.xml"] = (
        f'<workbook xmlns="{S}" xmlns:r="{hostile_files.OFFICE}">'
        f'<workbookPr date1904="{int(is_1904)}"/><sheets>{listed}</sheets></workbook>'
    )
    parts["xl/_rels/workbook.xml.rels"] = hostile_files.RELATIONS.format(links=links)
    return hostile_files.package("xl/workbook.xml", MAIN, parts)


def _sheet(sheet: SheetSpec, codes: list[str]) -> str:
    hidden = "".join(f'<col min="{n}" max="{n}" hidden="1"/>' for n in sheet.hidden_columns)
    rows = []
    for number, row in enumerate(sheet.rows, start=1):
        cells = "".join(
            _cell(f"{column_letters(column)}{number}", cell, codes)
            for column, cell in enumerate(row, start=1)
            if cell is not None
        )
        mark = ' hidden="1"' if number in sheet.hidden_rows else ""
        rows.append(f'<row r="{number}"{mark}>{cells}</row>')
    merges = "".join(f'<mergeCell ref="{ref}"/>' for ref in sheet.merges)
    return (
        f'<worksheet xmlns="{S}">{f"<cols>{hidden}</cols>" if hidden else ""}'
        f"<sheetData>{''.join(rows)}</sheetData>"
        f"{f'<mergeCells>{merges}</mergeCells>' if merges else ''}</worksheet>"
    )


def _cell(place: str, cell: Cell, codes: list[str]) -> str:
    if isinstance(cell, Styled):
        if cell.code not in codes:
            codes.append(cell.code)
        return f'<c r="{place}" s="{codes.index(cell.code) + 1}"><v>{cell.value!r}</v></c>'
    if isinstance(cell, Formula):
        return f'<c r="{place}"><f>{escape(cell.text)}</f><v>{cell.value}</v></c>'
    if isinstance(cell, bool):
        return f'<c r="{place}" t="b"><v>{int(cell)}</v></c>'
    if isinstance(cell, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{escape(cell)}</t></is></c>'
    return f'<c r="{place}"><v>{cell!r}</v></c>'


def _comments(n: int, sheet: SheetSpec) -> dict[str, str | bytes]:
    listed = "".join(
        f'<comment ref="{ref}"><text><t>{escape(text)}</t></text></comment>'
        for ref, text in sheet.comments.items()
    )
    link = f'<Relationship Id="c" Type="{hostile_files.OFFICE}/comments" Target="../c{n}.xml"/>'
    return {
        f"xl/c{n}.xml": f'<comments xmlns="{S}"><commentList>{listed}</commentList></comments>',
        f"xl/worksheets/_rels/s{n}.xml.rels": hostile_files.RELATIONS.format(links=link),
    }

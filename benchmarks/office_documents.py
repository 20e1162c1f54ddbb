"""Made-up Word tables and workbooks of the documents benchmark, and what became of them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from rag.core.documents import Chunk
from tests import hostile_files
from tests.workbooks import Cell, Formula, SheetSpec, Styled, workbook_file

FIRST_SEED = 7300
_PARTS = ("Pump", "Valve", "Seal", "Filter", "Motor", "Hose", "水泵", "阀门")
_DAY_ZERO = date(1899, 12, 30)


@dataclass(frozen=True, slots=True)
class WordTable:
    """A Word file, its table's header, and its rows as they are shown."""

    data: bytes
    head: list[str]
    rows: list[list[str]]


@dataclass(frozen=True, slots=True)
class ShownSheet:
    """A workbook, and by row and column header what it shows."""

    data: bytes
    values: dict[tuple[str, str], str]


def word_table(seed: int) -> WordTable:
    """Return a table over pages, with merged cells and with or without a marked header."""
    rng = random.Random(seed)
    names = ["Part", "Torque Nm", "Interval", "Site"][: rng.randint(3, 4)]
    rows = [
        [f"{rng.choice(_PARTS)} {n}", str(rng.randint(5, 400)), f"{rng.randint(1, 36)} months"]
        for n in range(rng.randint(30, 90))
    ]
    mark = "<w:trPr><w:tblHeader/></w:trPr>" if rng.random() < 0.5 else ""
    xml = [f"<w:tr>{mark}{''.join(_word_cell(name) for name in names)}</w:tr>"]
    breaks = set(range(rng.randint(12, 18), len(rows), rng.randint(18, 25)))
    site = ""
    for n, row in enumerate(rows):
        is_new = n % 7 == 0
        site = rng.choice(["North", "South", "Yard"]) if is_new else site
        cells = [_word_cell(row[0], is_broken=n in breaks), *map(_word_cell, row[1:])]
        if len(names) == 4:
            row.append(site)
            merge = '<w:vMerge w:val="restart"/>' if is_new else "<w:vMerge/>"
            cells.append(_word_cell(site if is_new else "", merge))
        xml.append(f"<w:tr>{''.join(cells)}</w:tr>")
    lead, tail = hostile_files.paragraph("Torques of all parts"), hostile_files.paragraph("End.")
    data = hostile_files.docx(f"{lead}<w:tbl>{''.join(xml)}</w:tbl>{tail}")
    pages = f"<Properties><Pages>{len(breaks) + 1}</Pages></Properties>"
    return WordTable(hostile_files.with_members(data, {"docProps/app.xml": pages}), names, rows)


def _word_cell(text: str, properties: str = "", *, is_broken: bool = False) -> str:
    mark = "<w:lastRenderedPageBreak/>" if is_broken else ""
    run = f"<w:r>{mark}<w:t>{text}</w:t></w:r>" if text else ""
    return f"<w:tc><w:tcPr>{properties}</w:tcPr><w:p>{run}</w:p></w:tc>"


def shown_sheet(seed: int) -> ShownSheet:
    """Return a workbook of title lines, formatted values, merged regions and hidden rows."""
    rng = random.Random(seed)
    names = [f"Value {n}" for n in range(rng.choice([4, 7, 30]))]
    styles = [rng.choice(_STYLES) for _ in names]
    rows: list[list[Cell]] = [["Report of prices"], [], ["Region", "Article", *names]]
    values: dict[tuple[str, str], str] = {}
    merges, hidden = [], []
    for n in range(rng.randint(30, 80)):
        article, region = f"{rng.choice(_PARTS)} {n}", f"Region {n // 5}"
        made = [style(rng) for style in styles]
        rows.append([region if n % 5 == 0 else None, article, *(cell for cell, _ in made)])
        if n % 5 == 0:
            merges.append(f"A{len(rows)}:A{len(rows) + 4}")
        if rng.random() < 0.1 and n % 5:
            hidden.append(len(rows))
            continue
        values[article, "Region"] = region
        values |= {(article, name): shown for name, (_, shown) in zip(names, made, strict=True)}
    sheet = SheetSpec("Prices", rows, merges=merges, hidden_rows=hidden)
    return ShownSheet(workbook_file(sheet), values)


def _percent(rng: random.Random) -> tuple[Cell, str]:
    tenths = rng.randint(-999, 999)
    return Styled(tenths / 1000, "0.0%"), f"{tenths / 10:.1f}%"


def _money(rng: random.Random) -> tuple[Cell, str]:
    cents = rng.randint(1, 99_999_999)
    return Styled(cents / 100, '"¥"#,##0.00'), f"¥{cents // 100:,}.{cents % 100:02d}"


def _loss(rng: random.Random) -> tuple[Cell, str]:
    number = rng.randint(-9999, 9999)
    return Styled(number, "#,##0;(#,##0)"), f"{number:,}" if number >= 0 else f"({-number:,})"


def _code(rng: random.Random) -> tuple[Cell, str]:
    number = rng.randint(1, 99_999)
    return Styled(number, "00000"), f"{number:05d}"


def _day(rng: random.Random) -> tuple[Cell, str]:
    number = rng.randint(40_000, 48_000)
    day = _DAY_ZERO + timedelta(days=number)
    return Styled(number, 'yyyy"年"m"月"d"日"'), f"{day.year}年{day.month}月{day.day}日"


def _span(rng: random.Random) -> tuple[Cell, str]:
    minutes = rng.randint(0, 6000)
    return Styled(minutes / 1440, "[h]:mm"), f"{minutes // 60}:{minutes % 60:02d}"


def _plain(rng: random.Random) -> tuple[Cell, str]:
    number = rng.randint(-9999, 9999)
    return number / 8, f"{number / 8:g}" if abs(number) < 8000 else f"{number / 8}".removesuffix(
        ".0"
    )


def _no_value(rng: random.Random) -> tuple[Cell, str]:
    return Formula(f"B{rng.randint(1, 9)}*2"), "[formula without a stored value]"


_STYLES = (_percent, _money, _loss, _code, _day, _span, _plain, _no_value)


def table_rows(text: str) -> list[tuple[str, ...]]:
    """Return the rows of tables in a text, their cells apart."""
    return [
        tuple(cell.strip() for cell in line[1:-1].split("|"))
        for line in re.split("[\n\f]+", text)
        if line.startswith("|") and line.endswith("|")
    ]


def told_values(chunks: Sequence[Chunk]) -> Iterator[tuple[str, str, str]]:
    """Yield the values that chunks tell with the names of their row and of their column."""
    for chunk in chunks:
        head: tuple[str, ...] = ()
        for row in table_rows(f"{chunk.context}\n{chunk.text}"):
            if "Article" in row:
                head = row
                continue
            named = dict(zip(head, row, strict=False))
            for name, value in named.items():
                yield named.get("Article", ""), name, value

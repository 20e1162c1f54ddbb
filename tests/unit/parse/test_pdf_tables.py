"""Tables of PDF: rows with their cells apart, with rules and without, over pages and columns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rag.core.documents import ChunkRule, ParsedDocument
from rag.stages.chunking.chunk import chunk_document
from rag.stages.parse import parse_document
from tests.pdf_pages import Drawn, Rule, Text, cells, drawn_pdf, grid, lines
from tests.unit.cutting import unigram
from tests.unit.parse.test_parse_samples import SHARED

CASES = SHARED / "cases"
with_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the cases are not at hand")
HEAD = ["Part no.", "Name", "Stock", "Price"]
ROWS = [[f"PN-{1000 + n}", f"Bracket type {n}", str(n % 7), f"{n * 1.5:.2f}"] for n in range(24)]
XS = (60, 160, 330, 420)


def parsed(folder: Path, *pages: list[Drawn], rotate: int = 0) -> ParsedDocument:
    path = folder / "upload"
    path.write_bytes(drawn_pdf(pages, rotate=rotate))
    return parse_document(path, "a.pdf")


def tables(document: ParsedDocument) -> list[list[list[str]]]:
    found = [document.text[b.start : b.end] for b in document.blocks if b.kind == "table"]
    return [
        [[cell.strip() for cell in row[1:-1].split("|")] for row in re.split("[\n\f]+", text)]
        for text in found
    ]


def test_cells_that_stand_below_each_other_are_a_table(tmp_path: Path) -> None:
    document = parsed(
        tmp_path, lines(["Spare parts"]) + cells([HEAD, *ROWS], XS, 750, right=(2, 3))
    )
    assert tables(document) == [[HEAD, *ROWS]]
    assert document.text.startswith("Spare parts\n\n| Part no. | Name | Stock | Price |\n")


def test_prose_around_a_table_is_no_part_of_it(tmp_path: Path) -> None:
    prose = ["The pump moves water from the low tank to the high one every hour of", "the day."]
    page = lines(prose) + cells([HEAD, *ROWS[:5]], XS, 740, right=(2, 3)) + lines(prose, top=640)
    document = parsed(tmp_path, page)
    assert tables(document) == [[HEAD, *ROWS[:5]]]
    assert document.text.startswith(" ".join(prose)) and document.text.endswith(" ".join(prose))


@pytest.mark.parametrize("order", ["rows", "columns"])
def test_strokes_part_cells_however_near_they_are(tmp_path: Path, order: str) -> None:
    xs, ys = (60, 110, 190, 220, 260), tuple(750 - 16 * n for n in range(len(ROWS) + 2))
    texts = cells([HEAD, *ROWS], [62, 112, 192, 222], 739, size=9)
    if order == "columns":
        texts.sort(key=lambda item: item.x)
    document = parsed(tmp_path, grid(xs, ys) + texts)
    assert tables(document) == [[HEAD, *ROWS]]


def test_a_merged_cell_stands_on_each_row_and_column_that_it_reaches(tmp_path: Path) -> None:
    strokes = grid((60, 140, 220, 300), (750, 730, 710, 690, 670))
    kept = [s for s in strokes if s not in (Rule(60, 690, 300, 690), Rule(220, 750, 220, 670))]
    page: list[Drawn] = [
        *kept,
        Rule(140, 690, 300, 690),
        Rule(220, 730, 220, 670),
        Text(65, 735, "Region"),
        Text(180, 735, "Year 2026"),
        Text(145, 715, "Q1"),
        Text(225, 715, "Q2"),
        Text(65, 685, "East"),
        Text(145, 695, "10"),
        Text(225, 695, "20"),
        Text(145, 675, "30"),
        Text(225, 675, "40"),
    ]
    document = parsed(tmp_path, page)
    assert tables(document) == [
        [
            ["Region", "Year 2026", "Year 2026"],
            ["", "Q1", "Q2"],
            ["East", "10", "20"],
            ["East", "30", "40"],
        ]
    ]
    assert [block.level for block in document.blocks] == [2]


def test_a_head_over_heads_names_the_columns_below_it(tmp_path: Path) -> None:
    rows = [
        ["PN-1", "5", "6", "7", "8"],
        ["PN-2", "15", "16", "17", "18"],
        ["PN-3", "1", "2", "3", "4"],
    ]
    xs = (60, 160, 240, 320, 400)
    page = [Text(185, 750, "2025"), Text(345, 750, "2026")]
    page += cells([["Part", "Q1", "Q2", "Q1", "Q2"], *rows], xs, 734)
    document = parsed(tmp_path, page)
    assert tables(document)[0][:2] == [
        ["", "2025", "2025", "2026", "2026"],
        ["Part", "Q1", "Q2", "Q1", "Q2"],
    ]
    assert document.blocks[0].level == 2


def test_lines_of_a_cell_are_one_cell(tmp_path: Path) -> None:
    page: list[Drawn] = cells([["Part", "Remarks", "Price"]], (60, 160, 400), 750)
    for n in range(5):
        top = 730 - 40 * n
        page += cells([[f"PN-{n}", "replace the seal and the", f"{n}.50"]], (60, 160, 400), top)
        page += [Text(160, top - 12, "gasket with it")]
    assert tables(parsed(tmp_path, page)) == [
        [
            ["Part", "Remarks", "Price"],
            *([f"PN-{n}", "replace the seal and the gasket with it", f"{n}.50"] for n in range(5)),
        ]
    ]


@pytest.mark.parametrize("is_repeated", [True, False])
@pytest.mark.parametrize("has_grid", [True, False])
def test_a_table_over_pages_is_one_with_its_header_once(
    tmp_path: Path, is_repeated: bool, has_grid: bool
) -> None:
    def page(rows: list[list[str]]) -> list[Drawn]:
        ys = tuple(761 - 16 * n for n in range(len(rows) + 1))
        strokes = grid((55, 150, 300, 360, 460), ys) if has_grid else []
        return strokes + cells(rows, (60, 160, 340, 440), 750, right=(2, 3))

    more = [HEAD] if is_repeated else []
    document = parsed(
        tmp_path, page([HEAD, *ROWS[:9]]), page([*more, *ROWS[9:20]]), page([*more, *ROWS[20:]])
    )
    assert tables(document) == [[HEAD, *ROWS]]
    assert (
        (document.text[document.pages[1].start :].split("\n")[0])
        == "| PN-1009 | Bracket type 9 | 2 | 13.50 |"
    )


def test_a_column_that_is_empty_on_one_page_stays_a_column(tmp_path: Path) -> None:
    def page(rows: list[list[str]]) -> list[Drawn]:
        ys = tuple(761 - 16 * n for n in range(len(rows) + 1))
        return grid((55, 150, 300, 360, 460), ys) + cells(rows, (60, 160, 310, 370), 750)

    bare = [[row[0], row[1], "", row[3]] for row in ROWS[9:20]]
    document = parsed(tmp_path, page([HEAD, *ROWS[:9]]), page(bare))
    assert tables(document) == [[HEAD, *ROWS[:9], *bare]]


def test_a_cell_over_columns_is_told_once_where_it_is_no_head(tmp_path: Path) -> None:
    strokes = [s for s in grid((60, 140, 220), (750, 730, 710)) if s != Rule(140, 750, 140, 710)]
    page = [*strokes, Rule(140, 750, 140, 730), Text(65, 735, "Part"), Text(145, 735, "Price")]
    document = parsed(tmp_path, [*page, Text(65, 715, "All prices without tax")])
    assert tables(document) == [[["Part", "Price"], ["All prices without tax", ""]]]


def test_another_table_on_the_next_page_is_another(tmp_path: Path) -> None:
    other = [
        ["City", "Country", "People", "Area"],
        *([f"C{n}", f"L{n}", "5", "7"] for n in range(6)),
    ]
    document = parsed(
        tmp_path,
        cells([HEAD, *ROWS[:9]], XS, 750, right=(2, 3)),
        cells(other, XS, 750, right=(2, 3)),
    )
    assert tables(document) == [[HEAD, *ROWS[:9]], other]


def test_a_table_in_a_column_leaves_the_other_column_alone(tmp_path: Path) -> None:
    prose = [
        "The pump moves water from the low",
        "tank to the high one every hour of",
        "the day until it is full again, and",
    ] * 8
    left = lines([*prose, "then it stops."], x=50, top=780)
    head, rows = ["Part", "Stock", "Price"], [[row[0], row[2], row[3]] for row in ROWS[:12]]
    right = cells([head, *rows], (320, 440, 520), 780, right=(1, 2))
    document = parsed(tmp_path, left + right)
    assert tables(document) == [[head, *rows]]
    assert document.text.startswith("The pump moves water from the low tank to the high one every")


@pytest.mark.parametrize("rotate", [0, 90, 270])
@pytest.mark.parametrize("angle", [0, 90, 180, 270])
def test_turned_text_is_read_upright(tmp_path: Path, rotate: int, angle: int) -> None:
    page: list[Drawn] = []
    for item in cells([HEAD, *ROWS[:6]], (60, 160, 300, 380), 400):
        turns = {0: (item.x, item.y), 90: (500 - item.y, item.x), 180: (500 - item.x, 500 - item.y)}
        x, y = turns.get(angle, (item.y, 500 - item.x))
        page.append(Text(x, y, item.text, angle=angle))
    assert tables(parsed(tmp_path, page, rotate=rotate)) == [[HEAD, *ROWS[:6]]]


@pytest.mark.parametrize(
    "rows",
    [
        [
            "-     a pump that moves water",
            "-     a valve",
            "-     a filter of steel",
            "-     a hose",
        ],
        ["1.    open the valve", "2.    start the pump", "3.    wait", "4.    close the valve"],
    ],
    ids=["bullets", "numbers"],
)
def test_lists_are_no_tables(tmp_path: Path, rows: list[str]) -> None:
    page = [Text(60, 750 - 14 * n, row[:2]) for n, row in enumerate(rows)]
    page += [Text(80, 750 - 14 * n, row[2:].strip()) for n, row in enumerate(rows)]
    assert tables(parsed(tmp_path, page)) == []


def test_columns_of_prose_are_no_table_even_line_by_line(tmp_path: Path) -> None:
    left = [
        "The pump moves water from the low",
        "tank to the high one every hour of",
        "the day until the tank is full and",
    ] * 5
    right = [
        "A valve in the pipe is closed while",
        "the filter is changed by the foreman",
        "who has to sign the sheet before it",
    ] * 5
    page = [
        Text(x, 780 - 13 * n, text)
        for n, pair in enumerate(zip(left, right, strict=True))
        for x, text in zip((50, 310), pair, strict=True)
    ]
    document = parsed(tmp_path, page)
    assert tables(document) == []
    assert document.text.index("is full and") < document.text.index("A valve in the pipe")


def test_a_frame_and_a_chart_are_no_tables(tmp_path: Path) -> None:
    chart = grid(tuple(range(60, 301, 20)), tuple(range(400, 601, 20)))
    page = [
        *grid((50, 400), (700, 780)),
        Text(60, 740, "A box with a warning in it."),
        *chart,
        Text(70, 500, "peak"),
    ]
    assert tables(parsed(tmp_path, page)) == []


def test_every_chunk_that_holds_rows_has_their_header(tmp_path: Path) -> None:
    rows = [[f"PN-{n}", f"Check it. Replace it if worn {n}", str(n), f"{n}.50"] for n in range(36)]
    document = parsed(
        tmp_path,
        cells([HEAD, *rows[:18]], (60, 160, 400, 480), 750, right=(2, 3)),
        cells(rows[18:], (60, 160, 400, 480), 750, right=(2, 3))
        + lines(["The pump is serviced by hand after that, and the sheet is signed."], top=300),
    )
    chunks = list(chunk_document(document, ChunkRule(300, 60), unigram()))
    assert len(chunks) > 4
    whole = {f"| {' | '.join(row)} |" for row in [HEAD, *rows]}
    for chunk in chunks:
        found = [line for line in re.split("[\n\f]+", chunk.text) if line.startswith("|")]
        assert set(found) <= whole
        if found:
            assert "| Part no. | Name | Stock | Price |" in f"{chunk.context}\n{chunk.text}"


def test_wide_and_long_tables_are_bounded(tmp_path: Path) -> None:
    row: list[Drawn] = [
        Text(20 + 2.8 * column, 700 - 12 * line, str(column % 10), 1)
        for line in range(4)
        for column in range(5000)
    ]
    path = tmp_path / "wide.pdf"
    path.write_bytes(drawn_pdf([row], width=14_100))
    document = parse_document(path, "wide.pdf")
    assert sum(character.isdigit() for character in document.text) == 20_000


@with_cases
def test_the_case_of_a_table_over_pages() -> None:
    document = parse_document(CASES / "table_pages.pdf", "table_pages.pdf")
    ((head, *rows),) = tables(document)
    assert head == ["Part no.", "Name", "Stock", "Price EUR"]
    assert rows == [
        [f"PN-{1000 + n}", f"Bracket type {n}", str(n % 7), f"{n * 1.5:.2f}"] for n in range(160)
    ]


@with_cases
def test_the_case_of_sideways_tables() -> None:
    document = parse_document(CASES / "sideways.pdf", "sideways.pdf")
    first, second = tables(document)
    assert first == [
        ["Service item", "Interval", "Action"],
        ["Engine oil", "10000 km", "Replace with SAE 5W-30"],
        ["Brake fluid", "40000 km", "Replace with DOT 4"],
        ["Spark plugs", "60000 km", "Inspect and replace"],
        ["Coolant", "80000 km", "Drain and refill"],
    ]
    assert second == [[f"R {cell}" for cell in row] for row in first]

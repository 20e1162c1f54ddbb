"""Spreadsheets say what Excel shows: values, merged cells, headers, nothing that is hidden."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rag.core.documents import ChunkRule, Notice, ParsedDocument
from rag.core.errors import DocumentError
from rag.providers.e5.tokenizer import E5Tokenizer
from rag.providers.sandbox.parser import SandboxedParser
from rag.stages.chunking.chunk import chunk_document
from rag.stages.parse import parse_document
from rag.stages.parse.column_bands import column_bands
from rag.stages.parse.spreadsheet import sheets_text
from rag.stages.parse.spreadsheet.xlsx import parse_xlsx
from tests import hostile_files
from tests.workbooks import (
    MAIN,
    Formula,
    S,
    SheetSpec,
    Styled,
    column_letters,
    replaced,
    workbook_file,
)


def parsed(folder: Path, *sheets: SheetSpec, with_hidden: bool = False) -> ParsedDocument:
    path = folder / "upload"
    path.write_bytes(workbook_file(*sheets))
    return parse_xlsx(path, "a.xlsx", with_hidden=with_hidden)


def table(*lines: str) -> str:
    return "\n".join(lines)


def test_values_are_those_that_a_sheet_shows(tmp_path: Path) -> None:
    rows = [
        ["what", "value"],
        ["share", Styled(0.125, "0.0%")],
        ["number", Styled(42, "00000")],
        ["price", Styled(300, '"¥"#,##0.00')],
        ["day", Styled(46205, 'yyyy"年"m"月"d"日"')],
        ["time", Styled(1.260416666666667, "[h]:mm")],
        ["loss", Styled(-1234, "#,##0;(#,##0)")],
        ["plain", 0.30000000000000004],
        ["phone", "013800138000"],
        ["long", 110101199003070.0],
        ["yes", True],
        ["sum", Formula("1+2", "3")],
        ["none", Formula("1+2")],
    ]
    document = parsed(tmp_path, SheetSpec("S", rows))
    shown = dict(line[2:-2].split(" | ") for line in document.text.split("\n")[2:])
    assert shown == {
        "what": "value",
        "share": "12.5%",
        "number": "00042",
        "price": "¥300.00",
        "day": "2026年7月2日",
        "time": "30:15",
        "loss": "(1,234)",
        "plain": "0.3",
        "phone": "013800138000",
        "long": "110101199003070",
        "yes": "TRUE",
        "sum": "3",
        "none": "[formula without a stored value]",
    }
    assert [notice.params for notice in document.warnings] == [{"n": "1"}]


def test_sheets_are_pages_under_their_names(tmp_path: Path) -> None:
    document = parsed(
        tmp_path,
        SheetSpec("价目", [["编号", "单价"], ["HX-1", "86"], ["HX-2", "62"]]),
        SheetSpec("空", []),
        SheetSpec("One", [["only", "row"]]),
        SheetSpec("Same", [["a", "b"], ["a", "b"], ["a", "b"]]),
    )
    assert document.text == (
        "价目\n\n| 编号 | 单价 |\n| HX-1 | 86 |\n| HX-2 | 62 |\f\fOne\n\n| only | row |\f"
        "Same\n\n| a | b |\n| a | b |\n| a | b |"
    )
    assert [page.label for page in document.pages] == ["价目", "空", "One", "Same"]
    assert {(b.kind, b.level) for b in document.blocks} == {("heading", 1), ("table", 0)}


def test_a_price_list_of_many_thousand_rows_passes(tmp_path: Path) -> None:
    rows = [[f"HX-{n}", f"part {n}", str(n), "x", "y", "z"] for n in range(20_000)]
    document = parsed(tmp_path, SheetSpec("P", rows))
    assert "| HX-19999 | part 19999 | 19999 | x | y | z |" in document.text
    assert document.warnings == ()


def test_empty_rows_and_columns_are_not_text(tmp_path: Path) -> None:
    far = [["m", *[""] * 20, "x"], *[[""] * 22] * 300, [*[""] * 21, "far"]]
    assert parsed(tmp_path, SheetSpec("A", far)).text == "A\n\n| m | x |\n|  | far |"


def test_an_empty_workbook_holds_no_text(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    path.write_bytes(workbook_file(SheetSpec("A", []), SheetSpec("B", [])))
    with pytest.raises(DocumentError, match="“a.xlsx” holds no text"):
        parse_document(path, "a.xlsx")


HIDING = SheetSpec(
    "A",
    [["item", "secret", "price"], ["pump", "PIN", 10], ["BOLT", "x", 11], ["valve", "y", 12]],
    hidden_rows=[3],
    hidden_columns=[2],
    comments={"A2": "NOTE"},
)
SHEETS = [SheetSpec("H", [["a", "b"]], "hidden"), SheetSpec("Z", [["c", "d"]], "veryHidden")]


def test_what_is_hidden_is_left_out_and_told(tmp_path: Path) -> None:
    document = parsed(tmp_path, HIDING, *SHEETS)
    assert document.text == "A\n\n| item | price |\n| pump | 10 |\n| valve | 12 |"
    assert [page.label for page in document.pages] == ["A"]
    (notice,) = document.warnings
    assert notice.params == {"sheets": "2", "rows": "1", "columns": "1", "comments": "1"}


def test_with_the_setting_what_is_hidden_is_marked(tmp_path: Path) -> None:
    document = parsed(tmp_path, HIDING, *SHEETS, with_hidden=True)
    assert document.text.split("\f") == [
        "A\n\n| item | secret [hidden] | price |\n| pump | PIN | 10 |\n| BOLT [hidden] | x | 11 |\n"
        "| valve | y | 12 |\n\nA2 [hidden] NOTE",
        "H [hidden]\n\n| a | b |",
        "Z [hidden]\n\n| c | d |",
    ]
    assert document.warnings == ()


def test_merged_cells_stand_on_each_row_and_over_each_column_of_a_header(tmp_path: Path) -> None:
    rows = [
        ["区域", "销售", None, "备注"],
        [None, "门店", "金额", None],
        ["华东区", "门店1", 300, "x"],
        [None, "门店2", 400, None],
        [None, "门店3", 500, None],
    ]
    merges = ["A1:A2", "B1:C1", "D1:D2", "A3:A5", "D4:D1048576"]
    document = parsed(tmp_path, SheetSpec("S", rows, merges=merges))
    assert document.text == table(
        "S\n",
        "| 区域 | 销售 | 销售 | 备注 |",
        "| 区域 | 门店 | 金额 | 备注 |",
        "| 华东区 | 门店1 | 300 | x |",
        "| 华东区 | 门店2 | 400 |  |",
        "| 华东区 | 门店3 | 500 |  |",
    )
    assert document.blocks[1].level == 2


def test_a_merged_cell_whose_first_row_is_hidden_stands_on_the_others(tmp_path: Path) -> None:
    rows = [["a", "b"], ["North", 1], [None, 2]]
    document = parsed(tmp_path, SheetSpec("S", rows, merges=["A2:A3"], hidden_rows=[2]))
    assert document.text == "S\n\n| a | b |\n| North | 2 |"


def test_title_lines_are_no_header(tmp_path: Path) -> None:
    rows = [["Report of sales"], ["Exported", "2026"], [], ["Name", "Region", "Units"]]
    rows += [[f"Widget {n}", "EU", n] for n in range(9)]
    document = parsed(tmp_path, SheetSpec("S", rows, merges=["A1:C1"]))
    assert document.text.startswith(
        "S\n\nReport of sales\nExported 2026\n\n| Name | Region | Units |\n| Widget 0 | EU | 0 |"
    )


def test_two_tables_of_a_sheet_have_their_own_headers(tmp_path: Path) -> None:
    rows = [["a", "n"], ["x", 1], ["y", 2], [], ["b", "m"], ["z", 3], [], ["w", 4], ["v", 5]]
    document = parsed(tmp_path, SheetSpec("S", rows))
    assert document.text == table(
        "S\n",
        "| a | n |\n| x | 1 |\n| y | 2 |\n",
        "| b | m |\n| z | 3 |\n| w | 4 |\n| v | 5 |",
    )


def test_a_wide_table_keeps_row_and_column_header_in_every_chunk(tmp_path: Path) -> None:
    head = ["Model", *[f"Type{n}" for n in range(60)]]
    rows = [[f"Row{r}", *[r * 100 + n for n in range(60)]] for r in range(30)]
    document = parsed(tmp_path, SheetSpec("S", [head, *rows]))
    found = {}
    for chunk in chunk_document(document, ChunkRule(200, 20), E5Tokenizer()):
        lines = [
            [cell.strip() for cell in line[1:-1].split("|")]
            for line in f"{chunk.context}\n{chunk.text}".split("\n")
            if line.startswith("|")
        ]
        if not lines:
            continue
        assert lines[0][0] == "Model"
        for line in lines[1:]:
            found |= {(line[0], name): cell for name, cell in zip(lines[0], line, strict=True)}
    assert all(
        found[f"Row{r}", f"Type{n}"] == str(r * 100 + n) for r in range(30) for n in range(60)
    )


def test_bands_repeat_the_columns_that_name_a_row() -> None:
    head = ["Region", "Article", *[f"Value {n}" for n in range(40)]]
    rows = [[f"R{n // 5}", f"Part {n}", *["1,234.50"] * 40] for n in range(20)]
    bands = column_bands([head, *rows], 1)
    assert len(bands) > 2
    assert all(band[:2] == [0, 1] for band in bands)
    assert sorted({n for band in bands for n in band}) == list(range(42))


def test_raised_figures_of_rich_text_stay_raised(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    data = workbook_file(SheetSpec("S", [["a", "@@"]]))
    path.write_bytes(
        replaced(
            data,
            "<t>@@</t>",
            '<r><t>10</t></r><r><rPr><vertAlign val="superscript"/></rPr><t>2</t></r><r><t> m</t></r>',
        )
    )
    assert "| a | 10² m |" in parse_xlsx(path, "a.xlsx").text


def test_a_hundred_thousand_rows_take_little_memory_and_time(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    rows = "".join(
        f'<row r="{n}"><c r="A{n}" t="inlineStr"><is><t>Part {n}</t></is></c>'
        + "".join(f'<c r="{c}{n}"><v>{n}.5</v></c>' for c in "BCDE")
        + "</row>"
        for n in range(1, 100_001)
    )
    path.write_bytes(_of_sheet(f"<sheetData>{rows}</sheetData>"))
    started = time.monotonic()
    document = SandboxedParser(memory_bytes=600 * 1024**2).parse(path, "a.xlsx")
    assert "| Part 100000 | 100000.5 |" in document.text
    assert time.monotonic() - started < 60


def _of_sheet(content: str) -> bytes:
    sheet = f'<worksheet xmlns="{S}">{content}</worksheet>'
    link = f'<Relationship Id="r1" Type="{hostile_files.OFFICE}/worksheet" Target="s.xml"/>'
    book = f'<workbook xmlns="{S}" xmlns:r="{hostile_files.OFFICE}"><sheets><sheet name="S" r:id="r1"/></sheets></workbook>'
    parts = {
        "xl/s.xml": sheet,
        "xl/workbook.xml": book,
        "xl/_rels/workbook.xml.rels": hostile_files.RELATIONS.format(links=link),
    }
    return hostile_files.package("xl/workbook.xml", MAIN, parts)


def test_a_million_rows_of_nothing_are_nothing(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    rows = "".join(f'<row r="{n}"/>' for n in range(1, 1_048_576))
    last = '<row r="1048576"><c r="XFD1048576"><v>7</v></c></row>'
    path.write_bytes(_of_sheet(f"<sheetData>{rows}{last}</sheetData>"))
    assert SandboxedParser().parse(path, "a.xlsx").text == "S\n\n| 7 |"


def test_five_thousand_columns_are_read_in_bands(tmp_path: Path) -> None:
    head: list[str] = [f"C{n}" for n in range(5000)]
    document = parsed(tmp_path, SheetSpec("S", [head, [f"v{n}" for n in range(5000)]]))
    assert all(len(line) < 400 for line in document.text.split("\n"))
    assert "| C0 |" in document.text and "C4999 |" in document.text


def test_merges_over_everything_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    rows = "".join(f'<row r="{n}"><c r="A{n}"><v>{n}</v></c></row>' for n in range(1, 2000))
    merges = '<mergeCell ref="A1:XFD1048576"/>' * 50_000
    path.write_bytes(_of_sheet(f"<sheetData>{rows}</sheetData><mergeCells>{merges}</mergeCells>"))
    started = time.monotonic()
    assert "| 1999 |" in SandboxedParser().parse(path, "a.xlsx").text
    assert time.monotonic() - started < 20


def test_more_cells_than_can_be_held_are_told(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sheets_text, "MAX_CELLS", 5)
    rows = [["a", "b"], ["1", "2"], ["3", "4"]]
    document = parsed(tmp_path, SheetSpec("S", rows))
    assert document.text == "S\n\n| a | b |\n| 1 | 2 |"
    assert document.warnings == (Notice("Only the first {n} cells are read.", n=5),)


@pytest.mark.parametrize(
    "sheet",
    [
        "<sheetData><row r='1'><c r='A1'><v>x</v></c>",
        "<sheetData><row r='1'><c r='A1'><v>x</v></c></row></sheetData>",
        "<sheetData><row r='1'><c r='A1' t='s'><v>-9</v></c><c t='s'><v>z</v></c></row></sheetData>",
    ],
)
def test_a_sheet_that_contradicts_itself_is_damaged(tmp_path: Path, sheet: str) -> None:
    path = tmp_path / "upload"
    path.write_bytes(_of_sheet(sheet))
    with pytest.raises(DocumentError, match="a.xlsx"):
        parse_xlsx(path, "a.xlsx")


def test_entities_that_multiply_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    data = _of_sheet("<sheetData/>")
    laughs = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'
    path.write_bytes(replaced(data, "<worksheet", f"{laughs}<worksheet"))
    with pytest.raises(DocumentError, match="declares entities"):
        SandboxedParser().parse(path, "a.xlsx")


def test_letters_of_columns() -> None:
    assert [column_letters(n) for n in (1, 26, 27, 16_384)] == ["A", "Z", "AA", "XFD"]

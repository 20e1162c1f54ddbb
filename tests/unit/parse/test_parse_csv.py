"""CSV: a record is a row, whatever stands within its quotation marks, and titles are no header."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.core.documents import Block, ChunkRule, ParsedDocument
from rag.providers.e5.tokenizer import E5Tokenizer
from rag.stages.chunking.chunk import chunk_document
from rag.stages.parse import parse_document
from rag.stages.parse.spreadsheet import delimited
from rag.stages.text.normalize import normalize_quote
from rag.stages.text.tables import read_tables


def parsed(folder: Path, data: str | bytes, name: str = "a.csv") -> ParsedDocument:
    path = folder / "upload"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return parse_document(path, name)


def rows(document: ParsedDocument) -> list[list[str]]:
    table = next(block for block in document.blocks if block.kind == "table")
    lines = document.text[table.start : table.end].split("\n")
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def test_a_record_is_a_row_with_its_line_ends_within_quotes(tmp_path: Path) -> None:
    data = 'name,comment,price\n"Pump","first\nsecond, with comma\n\nthird",300\n"Valve","one ""quoted"" word",40\n'
    assert rows(parsed(tmp_path, data)) == [
        ["name", "comment", "price"],
        ["Pump", "first second, with comma third", "300"],
        ["Valve", 'one "quoted" word', "40"],
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_what_parts_the_lines_alike(tmp_path: Path, delimiter: str) -> None:
    lines = [["Name", "Preis", "Bemerkung"], ["HX-1", "1.5", "gut, sehr gut"], ["HX-2", "2", ""]]
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(lines)
    assert rows(parsed(tmp_path, out.getvalue())) == lines


def test_commas_of_figures_part_nothing(tmp_path: Path) -> None:
    data = "Name;Preis;Rabatt\nA;1,50;0,5\nB;2,75;0,25\n"
    assert rows(parsed(tmp_path, data))[1] == ["A", "1,50", "0,5"]


def test_sentences_with_commas_are_one_column(tmp_path: Path) -> None:
    data = "remark\nwell, it runs\nstopped\nleaks, hums, and shakes\nnew\n"
    assert rows(parsed(tmp_path, data))[1] == ["well, it runs"]


def test_title_lines_stand_above_the_table(tmp_path: Path) -> None:
    lines = "Report of sales;;\r\nStand März;;\r\n;;\r\nName;Region;Units\r\n" + "".join(
        f"Widget {n};EU;{n}\r\n" for n in range(60)
    )
    document = parsed(tmp_path, lines.encode("cp1252"))
    assert document.text.startswith("Report of sales\nStand März\n\n| Name | Region | Units |\n")
    assert document.encoding == "windows-1252"
    kinds = [(block.kind, block.level) for block in document.blocks]
    assert kinds == [("paragraph", 0), ("table", 0)]
    chunks = list(chunk_document(document, ChunkRule(100, 10), E5Tokenizer()))
    assert len(chunks) > 3
    assert all("| Name | Region | Units |" in f"{c.context}\n{c.text}" for c in chunks)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "gb18030"])
def test_every_encoding_that_programs_write(tmp_path: Path, encoding: str) -> None:
    data = "规格;n\r\n" + "".join(f"规格 {n};{n}\r\n" for n in range(30))
    found = rows(parsed(tmp_path, data.encode(encoding)))
    assert found[0] == ["规格", "n"] and found[30] == ["规格 29", "29"]


def test_a_note_on_the_delimiter_is_no_row(tmp_path: Path) -> None:
    document = parsed(tmp_path, "sep=;\n编号;价格\nHX-1;86\n\n", "价目.csv")
    assert document.text == "| 编号 | 价格 |\n| HX-1 | 86 |"
    assert document.blocks == (Block("table", 0, len(document.text)),)


def test_a_mark_that_nothing_ends_costs_no_other_record(tmp_path: Path) -> None:
    data = 'part,size\n"5 inch,1\nbolt,2\nnut "M8",3\n"x" y,4\nend,5\n'
    assert rows(parsed(tmp_path, data)) == [
        ["part", "size"],
        ['"5 inch', "1"],
        ["bolt", "2"],
        ['nut "M8"', "3"],
        ["x y", "4"],
        ["end", "5"],
    ]


def test_a_hundred_thousand_marks_that_nothing_ends_are_bounded(tmp_path: Path) -> None:
    started = time.monotonic()
    found = rows(parsed(tmp_path, "a,b\n" + '"x,1\ny,2\n' * 100_001))
    assert time.monotonic() - started < 20
    assert found[-1] == ["y", "2"]


def test_five_thousand_columns_keep_their_headers(tmp_path: Path) -> None:
    head = [f"C{n}" for n in range(5000)]
    document = parsed(tmp_path, "\n".join(",".join(row) for row in [head, head, head]))
    assert all(len(line) < 400 for line in document.text.split("\n"))
    assert len(document.blocks) > 100


CELL = st.text(st.sampled_from('ab"\n,; 7水'), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    records=st.lists(st.tuples(CELL, CELL, CELL), min_size=3, max_size=12),
    delimiter=st.sampled_from(",;\t"),
)
def test_what_a_program_writes_is_read_as_it_was_meant(
    tmp_path: Path, records: list[tuple[str, str, str]], delimiter: str
) -> None:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([("one", "two", "three"), *records])
    wanted = [[" ".join(cell.split()) for cell in record] for record in records]
    assert rows(parsed(tmp_path, out.getvalue()))[1:] == [row for row in wanted if any(row)]


@pytest.mark.parametrize("tail", ["", "\n", "\n,,\n\n"])
@pytest.mark.parametrize("odd", ["x", " x", "x ", "a|b", '"a,b"', "a  b", "", "a\tb", "a\\"])
def test_plain_records_are_written_at_once_as_they_are_cell_by_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str, tail: str
) -> None:
    lines = [
        "Report of parts",
        "no,name,note",
        *(f"{n},part {n}," for n in range(300)),
        f"1,{odd},z",
    ]
    path = tmp_path / "upload"
    path.write_text("\n".join(lines) + tail)
    at_once = parse_document(path, "a.csv")
    monkeypatch.setattr(delimited, "_plain_table", lambda *told: "")
    assert parse_document(path, "a.csv") == at_once
    assert at_once.text.endswith(" | z |")
    assert at_once.blocks[0].kind == "paragraph"


def test_a_bar_within_a_cell_is_no_border(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    path.write_text("part,size\nBolt | nut,5\nC:\\,6\n")
    text = parse_document(path, "a.csv").text
    assert text == "| part | size |\n| Bolt \\| nut | 5 |\n| C:\\ | 6 |"
    (table,) = read_tables(text)
    assert [row.cells for row in table.rows] == [("Bolt | nut", "5"), ("C:\\", "6")]
    assert normalize_quote("Bolt | nut").text in normalize_quote(text).text

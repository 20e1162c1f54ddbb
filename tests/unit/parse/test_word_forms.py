"""Word forms, tables, signs and inserted files: what Word shows of them."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from rag.core.documents import ChunkRule, ParsedDocument
from rag.providers.e5.tokenizer import E5Tokenizer
from rag.providers.sandbox.parser import SandboxedParser
from rag.stages.chunking.chunk import chunk_document
from rag.stages.parse import parse_document
from rag.stages.parse.raised import raise_figures
from tests import hostile_files
from tests.hostile_files import paragraph


def parsed(folder: Path, body: str, members: dict[str, bytes] | None = None) -> ParsedDocument:
    links = "".join(
        f'<Relationship Id="{name.partition(".")[0]}" Type="{hostile_files.OFFICE}/aFChunk" Target="{name}"/>'
        for name in members or {}
    )
    parts: dict[str, str | bytes] = {f"word/{name}": data for name, data in (members or {}).items()}
    parts["word/document.xml"] = hostile_files.word_body(body)
    parts["word/_rels/document.xml.rels"] = hostile_files.RELATIONS.format(links=links)
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    path = folder / "upload"
    path.write_bytes(hostile_files.package("word/document.xml", kind, parts))
    return parse_document(path, "a.docx")


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def form(data: str, name: str, result: str = "") -> str:
    return (
        f'<w:r><w:fldChar w:fldCharType="begin"><w:ffData>{data}</w:ffData></w:fldChar></w:r>'
        f"<w:r><w:instrText> {name} </w:instrText></w:r>"
        f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{run(result) if result else ""}'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )


R = f'xmlns:r="{hostile_files.OFFICE}"'
CHOICES = '<w:listEntry w:val="low"/><w:listEntry w:val="urgent"/>'


@pytest.mark.parametrize(
    ("runs", "shown"),
    [
        (form('<w:checkBox><w:default w:val="1"/></w:checkBox>', "FORMCHECKBOX"), "☒"),
        (form('<w:checkBox><w:default w:val="0"/></w:checkBox>', "FORMCHECKBOX"), "☐"),
        (
            form('<w:checkBox><w:default w:val="0"/><w:checked/></w:checkBox>', "FORMCHECKBOX"),
            "☒",
        ),
        (
            form(
                '<w:checkBox><w:default w:val="1"/><w:checked w:val="0"/></w:checkBox>',
                "FORMCHECKBOX",
            ),
            "☐",
        ),
        (form(f'<w:ddList><w:result w:val="1"/>{CHOICES}</w:ddList>', "FORMDROPDOWN"), "urgent"),
        (form(f"<w:ddList>{CHOICES}</w:ddList>", "FORMDROPDOWN"), "low"),
        (form(f'<w:ddList><w:result w:val="9"/>{CHOICES}</w:ddList>', "FORMDROPDOWN"), ""),
        (form(f"<w:ddList>{CHOICES}</w:ddList>", "FORMDROPDOWN", "low"), "low"),
        (form("<w:textInput/>", "FORMTEXT", "typed"), "typed"),
        ('<w:r><w:sym w:font="Wingdings" w:char="F0FE"/></w:r>', "☒"),
        ('<w:r><w:sym w:font="Wingdings" w:char="00A8"/></w:r>', "☐"),
        ('<w:r><w:sym w:font="Wingdings 2" w:char="F052"/></w:r>', "☒"),
        ('<w:r><w:sym w:font="Wingdings" w:char="F0FC"/></w:r>', "✓"),
        ('<w:r><w:sym w:font="Symbol" w:char="F0A3"/></w:r>' + run(" 5 bar"), "≤ 5 bar"),
        ('<w:r><w:sym w:font="Nobody" w:char="F0A3"/></w:r>', ""),
        ('<w:r><w:sym w:char="zz"/></w:r>', ""),
        (run("\uf0fe", '<w:rFonts w:ascii="Wingdings"/>'), "☒"),
        (run("þ", '<w:rFonts w:ascii="Wingdings" w:hAnsi="Wingdings"/>'), "☒"),
        (run("10") + run("2", '<w:vertAlign w:val="superscript"/>') + run(" m"), "10² m"),
        (run("10") + run("-3", '<w:vertAlign w:val="superscript"/>'), "10⁻³"),
        (run("H") + run("2", '<w:vertAlign w:val="subscript"/>') + run("O"), "H₂O"),
        (run("1") + run("st", '<w:vertAlign w:val="superscript"/>'), "1st"),
        (run("a") + run("2", '<w:vertAlign w:val="baseline"/>'), "a2"),
        (run("so") + run("1, 3", '<w:vertAlign w:val="superscript"/>'), "so¹, ³"),
    ],
)
def test_a_form_says_what_is_ticked_and_chosen(tmp_path: Path, runs: str, shown: str) -> None:
    document = parsed(tmp_path, f"<w:p>{run('[')}{runs}{run(']')}</w:p>")
    assert document.text == f"[{shown}]"


def test_figures_alone_are_raised() -> None:
    assert raise_figures(" 2 ", "superscript") == " ² "
    assert [raise_figures(text, "superscript") for text in ("", "TM", "2a")] == ["", "TM", "2a"]
    assert raise_figures("2", "") == "2"


def test_a_form_of_ten_thousand_fields_is_read(tmp_path: Path) -> None:
    ticked = form('<w:checkBox><w:default w:val="1"/></w:checkBox>', "FORMCHECKBOX")
    body = "".join(f"<w:p>{ticked}{run(f' item {n}')}</w:p>" for n in range(10_000))
    started = time.monotonic()
    document = parsed(tmp_path, body)
    assert document.text.count("☒ item ") == 10_000
    assert time.monotonic() - started < 20


def cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(text)}</w:tc>"


def row(*cells: str, is_head: bool = False) -> str:
    mark = "<w:trPr><w:tblHeader/></w:trPr>" if is_head else ""
    return f"<w:tr>{mark}{''.join(cells)}</w:tr>"


DOWN, BELOW = '<w:vMerge w:val="restart"/>', "<w:vMerge/>"


def test_merged_cells_stand_on_each_row_and_wide_heads_in_each_column(tmp_path: Path) -> None:
    rows = [
        row(cell("Site", DOWN), cell("2026", '<w:gridSpan w:val="2"/>')),
        row(cell("", BELOW), cell("Q1"), cell("Q2")),
        row(cell("East", DOWN), cell("1"), cell("2")),
        row(cell("", BELOW), cell("3"), cell("4")),
        row(cell("total", '<w:gridSpan w:val="2"/>'), cell("10")),
    ]
    document = parsed(tmp_path, f"<w:tbl>{''.join(rows)}</w:tbl>")
    assert document.text == (
        "| Site | 2026 | 2026 |\n| Site | Q1 | Q2 |\n| East | 1 | 2 |\n| East | 3 | 4 |\n"
        "| total |  | 10 |"
    )
    assert document.blocks[0].level == 2


def test_a_row_that_begins_late_stands_below_its_own_columns(tmp_path: Path) -> None:
    late = '<w:tr><w:trPr><w:gridBefore w:val="{}"/></w:trPr>{}</w:tr>'
    rows = [
        row(cell("Part"), cell("Torque"), cell("Unit", DOWN)),
        late.format(1, cell("12") + cell("Nm")),
        late.format(2, cell("", BELOW)),
    ]
    document = parsed(tmp_path, f"<w:tbl>{''.join(rows)}</w:tbl>")
    assert document.text == "| Part | Torque | Unit |\n|  | 12 | Nm |\n|  |  | Nm |"


def test_rows_that_repeat_on_each_page_are_the_header(tmp_path: Path) -> None:
    rows = [
        row(cell("A"), cell("B"), is_head=True),
        row(cell("unit"), cell("mm"), is_head=True),
        row(cell("x"), cell("y")),
    ]
    assert parsed(tmp_path, f"<w:tbl>{''.join(rows)}</w:tbl>").blocks[0].level == 2


def test_a_table_over_pages_keeps_its_header_in_every_chunk(tmp_path: Path) -> None:
    broken = cell("").replace("<w:r>", "<w:r><w:lastRenderedPageBreak/>")
    rows = [row(cell("Part"), cell("Torque Nm"), cell("Site"), is_head=True)]
    for n in range(90):
        first = (
            broken.replace("></w:t>", f">Bolt {n}</w:t>") if n in (20, 55) else cell(f"Bolt {n}")
        )
        rows.append(row(first, cell(str(10 + n)), cell("East", DOWN if n == 0 else BELOW)))
    path = tmp_path / "a.docx"
    data = hostile_files.docx(f"<w:tbl>{''.join(rows)}</w:tbl>" + paragraph("End."))
    path.write_bytes(
        hostile_files.with_members(data, {"docProps/app.xml": "<P><Pages>3</Pages></P>"})
    )
    document = parse_document(path, "a.docx")
    assert len(document.pages) == 3
    assert [block.kind for block in document.blocks] == ["table", "paragraph"]
    held = set()
    for chunk in chunk_document(document, ChunkRule(120, 20), E5Tokenizer()):
        rows_of_chunk = [x for x in re.split("[\n\f]", chunk.text) if "Bolt" in x]
        held |= set(rows_of_chunk)
        if rows_of_chunk:
            assert "| Part | Torque Nm | Site |" in f"{chunk.context}\n{chunk.text}"
    assert held == {f"| Bolt {n} | {10 + n} | East |" for n in range(90)}


def test_a_table_within_a_cell_moves_nothing(tmp_path: Path) -> None:
    inner = f"<w:tbl>{row(cell('i1', DOWN), cell('i2'))}{row(cell('', BELOW), cell('i3'))}</w:tbl>"
    outer = row(cell("a"), f"<w:tc>{inner}<w:p/></w:tc>") + row(cell("b"), cell("c"))
    text = parsed(tmp_path, f"<w:tbl>{outer}</w:tbl>").text
    assert "⟐" not in text and "␌" not in text
    assert "| b | c |" in text


def test_inserted_files_are_read_where_they_stand(tmp_path: Path) -> None:
    body = (
        paragraph("before")
        + f'<w:altChunk {R} r:id="page"/>'
        + paragraph("between")
        + f'<w:altChunk {R} r:id="word"/><w:altChunk {R} r:id="note"/>'
        + paragraph("after")
    )
    members = {
        "page.html": b"<html><h2>Head</h2><table><tr><td>a<td>b<tr><td>1<td>2</table></html>",
        "word.docx": hostile_files.docx(paragraph("from Word") + f'<w:altChunk {R} r:id="x"/>'),
        "note.txt": "水泵".encode(),
    }
    document = parsed(tmp_path, body, members)
    assert document.text == (
        "before\n\nHead\n\n| a | b |\n| 1 | 2 |\n\nbetween\n\nfrom Word\n\n水泵\n\nafter"
    )
    assert [str(notice) for notice in document.warnings] == [
        "Parts that were inserted as foreign content are not read."
    ]


@pytest.mark.parametrize("data", [b"{\\rtf1 x}", b"\x00" * 100, hostile_files.zipped({"a": "b"})])
def test_inserted_files_of_other_kinds_are_told(tmp_path: Path, data: bytes) -> None:
    document = parsed(tmp_path, paragraph("a") + f'<w:altChunk {R} r:id="x"/>', {"x.bin": data})
    assert document.text == "a"
    assert len(document.warnings) == 1


def test_an_inserted_bomb_kills_no_worker(tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    bomb = hostile_files.docx_bomb(b"<w:p/>", 400)
    link = f'<Relationship Id="x" Type="{hostile_files.OFFICE}/aFChunk" Target="x.docx"/>'
    parts: dict[str, str | bytes] = {
        "word/document.xml": hostile_files.word_body(
            paragraph("a") + f'<w:altChunk {R} r:id="x"/>'
        ),
        "word/_rels/document.xml.rels": hostile_files.RELATIONS.format(links=link),
        "word/x.docx": bomb,
    }
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    path.write_bytes(hostile_files.package("word/document.xml", kind, parts))
    document = SandboxedParser().parse(path, "a.docx")
    assert (document.text, len(document.warnings)) == ("a", 1)

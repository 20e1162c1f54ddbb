"""The shipped demo documents hold what the demo's questions ask for, and nothing by chance."""

from __future__ import annotations

import json
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pypdfium2
import pytest

DEMO = Path(__file__).resolve().parents[2] / "rag" / "demo"
DOCUMENTS = sorted((DEMO / "documents").iterdir())
ASKED = json.loads((DEMO / "questions.json").read_text(encoding="utf-8"))
QUESTIONS = [*ASKED["demo"], *ASKED["golden"]]
KINDS = {"zh", "en", "zh-en", "en-zh", "identifier", "word"}
OFFICE_PARTS = {
    ".docx": r"word/document\.xml",
    ".pptx": r"ppt/slides/slide\d+\.xml",
    ".xlsx": r"xl/worksheets/sheet\d+\.xml",
}
HAN = re.compile(r"[\u4e00-\u9fff]")


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def pdf_pages(path: Path) -> list[str]:
    with pypdfium2.PdfDocument(path) as document:
        return [page.get_textpage().get_text_range() for page in document]


def office_parts(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as package:
        return {
            name: " ".join(ElementTree.fromstring(package.read(name)).itertext())
            for name in package.namelist()
            if re.fullmatch(OFFICE_PARTS[path.suffix], name)
        }


def sheet_rows(path: Path, number: int) -> list[list[str]]:
    with zipfile.ZipFile(path) as package:
        sheet = ElementTree.fromstring(package.read(f"xl/worksheets/sheet{number}.xml"))
    space = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
    return [["".join(cell.itertext()) for cell in row] for row in sheet.iter(f"{space}row")]


@cache
def text_of(path: Path) -> str:
    if path.suffix == ".pdf":
        return "\f".join(pdf_pages(path))
    if path.suffix in OFFICE_PARTS:
        return "\f".join(office_parts(path).values())
    return path.read_bytes().decode("gb18030" if path.suffix == ".txt" else "utf-8")


def page_of(path: Path, number: int) -> str:
    if path.suffix == ".pdf":
        return pdf_pages(path)[number - 1]
    folder = {".pptx": "ppt/slides/slide", ".xlsx": "xl/worksheets/sheet"}[path.suffix]
    return office_parts(path)[f"{folder}{number}.xml"]


def document(name: str) -> Path:
    return next(path for path in DOCUMENTS if path.name == name)


def holders(needle: str) -> set[str]:
    return {path.name for path in DOCUMENTS if squeezed(needle) in squeezed(text_of(path))}


def test_both_languages_come_in_several_formats() -> None:
    chinese = {path.suffix for path in DOCUMENTS if len(HAN.findall(text_of(path))) > 200}
    english = {path.suffix for path in DOCUMENTS if not HAN.search(text_of(path))}
    assert chinese == {".docx", ".pdf", ".md", ".txt", ".xlsx"}
    assert english == {".docx", ".pdf", ".md", ".html", ".pptx"}
    assert len(DOCUMENTS) == 10


def test_the_documents_are_small() -> None:
    sizes = [path.stat().st_size for path in DOCUMENTS]
    assert min(sizes) > 1000
    assert sum(sizes) < 1_500_000


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_each_document_is_a_few_pages_of_clean_text(path: Path) -> None:
    text = text_of(path)
    letters = len(HAN.findall(text)) * 2 + len(re.findall(r"[A-Za-z]", text))
    assert 500 < letters < 12_000
    assert "\ufffd" not in text
    assert not re.search(r"[\x00-\x08\x0b\x0e-\x1f]", text)


@pytest.mark.parametrize(
    ("name", "chapters", "deepest"),
    [
        (
            "HX-400水培架使用手册.pdf",
            ["1 概述", "2 安装与首次启动", "3 日常维护", "4 故障代码与处理"],
            1,
        ),
        (
            "plant-room-safety-manual.pdf",
            [
                "1 Scope and general rules",
                "2 UVS-30 ultraviolet steriliser",
                "3 CarbonRise 12 carbon dioxide unit",
                "4 Maintenance schedule and fault codes",
            ],
            1,
        ),
    ],
)
def test_bookmarks_lead_to_the_page_that_holds_the_heading(
    name: str, chapters: list[str], deepest: int
) -> None:
    path = document(name)
    pages = pdf_pages(path)
    with pypdfium2.PdfDocument(path) as opened:
        marks = [(m.level, m.get_title(), m.get_dest().get_index()) for m in opened.get_toc()]
    assert len(pages) == 4
    assert [title for level, title, _ in marks if level == 0] == chapters
    assert max(level for level, _, _ in marks) == deepest
    for _, title, index in marks:
        assert squeezed(title) in squeezed(pages[index])


def test_the_chinese_text_file_is_gb18030_and_nothing_else() -> None:
    content = document("访客须知.txt").read_bytes()
    with pytest.raises(UnicodeDecodeError):
        content.decode("utf-8")
    assert content.decode("gb18030").startswith("北桥公共温室访客须知")


@pytest.mark.parametrize("name", ["员工手册.docx", "service-agreement.docx"])
def test_heading_numbers_are_in_the_numbering_not_in_the_text(name: str) -> None:
    with zipfile.ZipFile(document(name)) as package:
        numbering = package.read("word/numbering.xml").decode()
        body = package.read("word/document.xml").decode()
    assert 'w:lvlText w:val="%1.%2"' in numbering
    headings = re.findall(r'<w:pStyle w:val="Heading[12]"/>.*?<w:t[^>]*>([^<]+)', body, re.S)
    assert len(headings) >= 15
    assert not any(heading[0].isdigit() for heading in headings)
    assert "<w:tbl>" in body


def test_the_price_list_keeps_each_part_number_beside_its_price() -> None:
    rows = sheet_rows(document("备件价目表.xlsx"), 1)
    prices = {row[0]: row[3] for row in rows[1:]}
    assert rows[0][0] == "备件编号"
    assert prices["HX-4471-B"] == "86"
    assert prices["HX-4471-C"] == "62"
    assert prices["HX-4417-B"] == "215"


@pytest.mark.parametrize(
    "source", sorted((DEMO / "sources").iterdir()), ids=lambda source: source.stem
)
def test_a_built_document_holds_every_line_of_its_source(source: Path) -> None:
    path = document(source.stem)
    built = squeezed(text_of(path))
    if path.suffix == ".xlsx":  # The names of sheets are kept apart from their cells.
        with zipfile.ZipFile(path) as package:
            built += package.read("xl/workbook.xml").decode()
    lines = source.read_text(encoding="utf-8").splitlines()
    pieces = [piece for line in lines if line[:2] != "> " for piece in line.split("|")]
    missing = [
        piece for piece in pieces if squeezed(re.sub(r"^([%#-]+ |=+$)", "", piece)) not in built
    ]
    assert not missing


def test_no_document_names_whoever_built_it() -> None:
    for path in DOCUMENTS:
        if path.suffix in OFFICE_PARTS:
            with zipfile.ZipFile(path) as package:
                core = package.read("docProps/core.xml").decode()
            found = re.search(r"<dc:creator>([^<]*)</dc:creator>", core)
            assert not found or found.group(1) in {"", "openpyxl"}


def test_the_demo_asks_in_chinese_in_english_and_across() -> None:
    assert [asked["kind"] for asked in ASKED["demo"]] == ["zh", "en", "zh-en"]
    assert len(ASKED["golden"]) >= 20
    assert {asked["kind"] for asked in QUESTIONS} == KINDS
    assert len({asked["question"] for asked in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: asked["question"])
def test_an_answer_is_in_the_expected_files_and_in_no_other(asked: dict[str, Any]) -> None:
    assert holders(asked["contains"]) == set(asked["files"])
    if asked["page"] is not None:
        (name,) = asked["files"]
        assert squeezed(asked["contains"]) in squeezed(page_of(document(name), asked["page"]))


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: asked["question"])
def test_a_question_is_in_the_language_that_its_kind_says(asked: dict[str, Any]) -> None:
    question_is_chinese = bool(HAN.search(asked["question"]))
    files_are_chinese = {bool(HAN.search(text_of(document(name)))) for name in asked["files"]}
    expected = {
        "zh": (True, {True}),
        "en": (False, {False}),
        "zh-en": (True, {False}),
        "en-zh": (False, {True}),
    }
    if asked["kind"] in expected:
        assert (question_is_chinese, files_are_chinese) == expected[asked["kind"]]
    elif asked["kind"] == "word":
        assert re.fullmatch(r"[\u4e00-\u9fff]{1,2}", asked["question"])


def test_a_cross_language_answer_has_no_chinese_twin() -> None:
    chinese = "".join(text_of(path) for path in DOCUMENTS if HAN.search(text_of(path)))
    for word in ("紫外", "二氧化碳", "撤离", "种子图书馆", "服务合同"):
        assert word not in chinese

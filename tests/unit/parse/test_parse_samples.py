"""Golden tests: what people see in each sample document is found where it stands."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from rag.core.documents import KINDS, ParsedDocument
from rag.core.errors import DocumentError
from rag.providers.sandbox.parser import SandboxedParser

BASE_DIR = Path(__file__).parents[3]
SHARED = Path(os.environ.get("CITABLE_SHARED", BASE_DIR.parent / "shared"))
SAMPLES = SHARED / "samples"
SHIPPED = BASE_DIR / "rag" / "demo" / "documents"
with_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples are not at hand")

# Words, per page where there are pages: page number, then what must stand on it.
# Two columns whose wide blanks are no borders of cells.
JUSTIFIED: list[tuple[int | None, str]] = [
    (1, "Nam arcu libero, nonummy eget, consectetuer id, vulputate a, magna."),
    (1, "Integer tempus convallis augue. Etiam facilisis."),
    (1, "et vehicula libero dui cursus dui. Mauris tempor ligula sed lacus."),
]
WORDS: dict[str, list[tuple[int | None, str]]] = {
    "en_4pages.pdf": [(1, "Hello, here is some text without a meaning."), (4, "blind text")],
    "en_outline.pdf": [(2, "1 Foo"), (4, "9 Baz")],
    "en_multicolumn.pdf": [
        (1, "consectetuer adipiscing elit"),
        (1, "viverra ac, nunc"),
        (3, ""),
        *JUSTIFIED,
    ],
    "zh_image_and_text.pdf": [(1, "我是文字")],
    "zh_chapters_derived.pdf": [
        (1, "第一章 游戏与作品"),
        (1, "琉球国舜天王朝建立者，神号尊敦。1187 年至 1237 年在位"),
        (5, "3.2 小节"),
    ],
    "zh_headings.doc": [
        (None, "居中的大标题"),
        (None, "章节1.1的内容"),
        (None, "| 21 | 22 | 23 |"),
        (None, "页眉左 页眉中 页眉右"),
    ],
    "en_various.doc": [
        (None, "ゾルゲと尾崎、淡々と最期"),
        (None, "Row 2 Col 3"),
        (None, "- Bullet 2"),
    ],
    "zh_form.docx": [
        (None, "{{projectName}}"),
        (None, "附件: 1、概算前后对比表。"),
        (None, "经办： 负责人："),
    ],
    "en_numbered_headings.docx": [
        (1, "1.2. Section 1.2"),
        (2, "2.1.1. Section 2.1.1"),
        (2, "2.3.1. Hardware Constraints"),
    ],
    "en_tables.docx": [
        (None, "| Cell 1.0 | Merged Cell 1.1 1.2 |  |"),
        (None, "| Header 0.0 | Header 0.1 | Header 0.2 |  |  |"),
    ],
    "en_tracked.docx": [
        (None, "A nickname for Petrika the Albanian variation of Peter"),
        (None, "Introducing Apache Mahout"),
    ],
    "en_table.pptx": [(1, "A Slide with a Table"), (1, "| Tangerine | Pink | Aqua |")],
    "zh_merged.xlsx": [(1, "| 合并单元格 |"), (1, "Sunday, March 21, 2010"), (1, "| 中文字体 |")],
    "en_test.epub": [
        (None, "Chapter 1: Test Content"),
        (None, "a different style."),
        (None, "- A bullet point"),
    ],
    "en_attachment.eml": [
        (None, "From: Alice Example <alice@example.com>"),
        (None, "Hello Bob,"),
        (None, "- test.txt"),
    ],
    "comprehensive.md": [
        (None, "## Implicit header references"),
        (None, "MapReduce is a paradigm"),
    ],
    "zh_hans_gb18030.txt": [(None, "《战国无双3》（）是由光荣和ω-force开发的")],
    "zh_hans_utf16le_nobom.txt": [(None, "武藏浦和站（）是一个位于埼玉县埼玉市南区七丁目")],
    "zh_hant_big5.txt": [(None, "梵語儘管非常古老，構造卻精妙絕倫")],
}
HEADINGS = {
    "en_outline.pdf": [(1, f"{n} {title}") for n, title in enumerate(["Foo", "Bar", "Baz"] * 3, 1)],
    "zh_chapters_derived.pdf": [
        (1, "第一章 游戏与作品"),
        (2, "1.1 小节"),
        (2, "1.2 小节"),
        (1, "第二章 人物与地理"),
        (2, "2.1 小节"),
        (2, "2.2 小节"),
        (1, "第三章 科学与技术"),
        (2, "3.1 小节"),
        (2, "3.2 小节"),
    ],
    "en_numbered_headings.docx": [
        (1, "Test Document"),
        (1, "1. Section 1"),
        (2, "1.1. Section 1.1"),
        (2, "1.2. Section 1.2"),
        (3, "1.2.1. Section 1.2.3"),
        (1, "2. Section 2"),
        (3, "2.1.1. Section 2.1.1"),
        (2, "2.1. Section 2.1"),
        (2, "REFERENCES"),
    ],
    "en_tables.docx": [(1, "Test with tables")],
    "en_table.pptx": [(2, "A Slide with a Table")],
    "zh_merged.xlsx": [(1, "Sheet1")],
    "en_test.epub": [(1, "Chapter 1: Test Content"), (1, "Chapter 2: More Content")],
    "en_tracked.docx": [],
    "en_various.doc": [],
    "zh_form.docx": [],
}
PAGES = {
    "en_4pages.pdf": 4,
    "en_outline.pdf": 4,
    "en_multicolumn.pdf": 3,
    "zh_chapters_derived.pdf": 5,
    "zh_image_and_text.pdf": 1,
    "en_table.pptx": 1,
    "zh_merged.xlsx": 3,
    "en_numbered_headings.docx": 2,
}
ENCODINGS = {
    "zh_hans_gb18030.txt": "gb18030",
    "zh_hans_utf16le_nobom.txt": "utf-16-le",
    "zh_hant_big5.txt": "big5hkscs",
    "comprehensive.md": "utf-8",
}
REFUSED = {
    "en_password.pdf": "“en_password.pdf” needs a password.",
    "en_scan_3p.pdf": "“en_scan_3p.pdf” has no text layer",
    "samples.zip": "“samples.zip” is a zip, not a document.",
}


@cache
def parsed(path: Path) -> ParsedDocument:
    return SandboxedParser().parse(path, path.name)


def documents() -> Iterator[Path]:
    if SAMPLES.is_dir():
        yield from (SAMPLES / name for name in WORDS)
    yield from sorted(SHIPPED.iterdir())


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


@with_samples
def test_empty_sheets_keep_their_names() -> None:
    labels = [page.label for page in parsed(SAMPLES / "zh_merged.xlsx").pages]
    assert labels == ["Sheet1", "Sheet2", "Sheet3"]


@with_samples
def test_no_sample_is_forgotten() -> None:
    there = {path.name for path in SAMPLES.iterdir()} - {"README.md"}
    assert there == {*WORDS, *REFUSED}


@with_samples
@pytest.mark.parametrize("name", WORDS)
def test_the_words_of_a_sample_stand_on_their_pages(name: str) -> None:
    document = parsed(SAMPLES / name)
    assert document.kind == name.rpartition(".")[2]
    assert not any(
        word in str(notice) for notice in document.warnings for word in ("lost", "Damage")
    )
    for number, words in WORDS[name]:
        where = document.text
        if number is not None:
            page = document.pages[number - 1]
            where = document.text[page.start : page.end]
        assert words in where


@with_samples
@pytest.mark.parametrize("name", HEADINGS)
def test_the_headings_of_a_sample_have_their_levels_and_numbers(name: str) -> None:
    document = parsed(SAMPLES / name)
    found = [
        (block.level, document.text[block.start : block.end])
        for block in document.blocks
        if block.kind == "heading"
    ]
    assert found == HEADINGS[name]


@with_samples
@pytest.mark.parametrize("name", WORDS)
def test_pages_and_encodings_of_a_sample_are_known(name: str) -> None:
    document = parsed(SAMPLES / name)
    assert len(document.pages) == PAGES.get(name, 0)
    assert document.encoding == ENCODINGS.get(name, "")


@with_samples
@pytest.mark.parametrize("name", REFUSED)
def test_a_sample_without_readable_text_is_refused(name: str) -> None:
    with pytest.raises(DocumentError) as caught:
        SandboxedParser().parse(SAMPLES / name, name)
    assert REFUSED[name] in str(caught.value)


@pytest.mark.parametrize("path", list(documents()), ids=lambda path: path.name)
def test_spans_of_every_document_are_exact(path: Path) -> None:
    document = parsed(path)
    size = len(document.text)
    edges = [edge for block in document.blocks for edge in (block.start, block.end)]
    assert edges == sorted(edges)
    assert all(0 <= edge <= size for edge in edges)
    assert all(block.start < block.end for block in document.blocks)
    assert all((block.kind == "heading") == (block.level > 0) for block in document.blocks)
    assert document.kind in KINDS
    if document.pages:
        pages = [document.text[page.start : page.end] for page in document.pages]
        assert "\f".join(pages) == document.text
        assert [page.number for page in document.pages] == list(range(1, len(pages) + 1))
    assert not re.search(r"[\x00-\x08\x0e-\x1f\ufffd\ue000-\uf8ff]|\r", document.text)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("员工手册.docx", "2.1 年假"),
        ("service-agreement.docx", "3.2 Spare parts"),
        ("备件价目表.xlsx", "| HX-4471-B | 水泵泵膜 | HX-400 | 86 |"),
        ("dosing-training.pptx", "| D2 | stock bottle empty |"),
        ("dosing-training.pptx", "Explain that the racks have small tanks of their own"),
        ("seed-library.html", "| Lettuce | 4 | 80 percent |"),
        ("plant-room-safety-manual.pdf", "3.2 Alarm levels"),
        ("访客须知.txt", "一、开放时间"),
    ],
)
def test_the_shipped_documents_keep_numbers_and_rows(name: str, words: str) -> None:
    assert words in parsed(SHIPPED / name).text


def test_sheets_and_slides_go_by_their_names() -> None:
    assert [page.label for page in parsed(SHIPPED / "备件价目表.xlsx").pages] == [
        "水培架备件",
        "耗材",
        "订购说明",
    ]
    assert parsed(SHIPPED / "dosing-training.pptx").pages[5].label == "Alarms"


@with_samples
def test_no_word_of_a_chinese_pdf_is_torn_by_a_line_end() -> None:
    text = parsed(SAMPLES / "zh_chapters_derived.pdf").text
    assert "流放伊豆国，因遇大风漂流至冲绳本岛，并与当地豪族大里按司的妹妹结婚" in squeezed(text)
    assert not re.search(r"[\u4e00-\u9fff]\n来的舜天", text)


@with_samples
@pytest.mark.parametrize(
    "name", ["zh_headings.doc", "en_tables.docx", "en_outline.pdf", "zh_merged.xlsx"]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_cut_or_flipped_file_ends_in_text_or_a_sentence(
    tmp_path: Path, name: str, seed: int
) -> None:
    data = bytearray((SAMPLES / name).read_bytes())
    flipped = bytearray(data)
    chance = random.Random(seed)
    for _ in range(300):
        flipped[chance.randrange(len(flipped))] = chance.randrange(256)
    for bad in (data[: len(data) // (seed + 1)], flipped):
        path = tmp_path / "upload"
        path.write_bytes(bad)
        started = time.monotonic()
        try:
            assert SandboxedParser().parse(path, name).text.strip()
        except DocumentError as error:
            assert f"“{name}”" in str(error)
            assert error.hint
        assert time.monotonic() - started < 70

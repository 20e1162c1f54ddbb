"""Plain text, Markdown and CSV: blocks by position, headings where there is little doubt."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.documents import Block, Notice, ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.parse import parse_document
from rag.stages.parse.headings import numbered_headings
from rag.stages.parse.text import plain
from rag.stages.parse.text.plain import markdown_blocks


def shown(text: str, blocks: list[Block]) -> list[tuple[str, int, str]]:
    return [(block.kind, block.level, text[block.start : block.end]) for block in blocks]


def parsed(folder: Path, data: str | bytes, name: str, encoding: str = "") -> ParsedDocument:
    path = folder / "upload"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return parse_document(path, name, encoding)


MARKDOWN = """---
title: Guide
---

Opening words.

# Rooms #

Palm Room
and more
---------

| Room | Seats |
| --- | --- |
| Palm | 40 |

a | b
--|--
1 | 2

1. first
2. second
   goes on

```py
# no heading
```

~~~
``` still code
~~~

+---+---+
| a | b |
+===+===+

Setext
======
- item
last words"""


def test_markdown_is_cut_into_its_blocks() -> None:
    assert shown(MARKDOWN, list(markdown_blocks(MARKDOWN))) == [
        ("code", 0, "---\ntitle: Guide\n---"),
        ("paragraph", 0, "Opening words."),
        ("heading", 1, "# Rooms #"),
        ("paragraph", 0, "Palm Room\nand more\n---------"),
        ("table", 0, "| Room | Seats |\n| --- | --- |\n| Palm | 40 |"),
        ("table", 0, "a | b\n--|--\n1 | 2"),
        ("list", 0, "1. first\n2. second\n   goes on"),
        ("code", 0, "```py\n# no heading\n```"),
        ("code", 0, "~~~\n``` still code\n~~~"),
        ("table", 0, "+---+---+\n| a | b |\n+===+===+"),
        ("heading", 1, "Setext"),
        ("list", 0, "- item"),
        ("paragraph", 0, "last words"),
    ]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("", []),
        ("\n\n", []),
        ("```\nnever closed\n# x", ["code"]),
        ("#hashtag is no heading", ["paragraph"]),
        ("####### seven", ["paragraph"]),
        ("---\nno front matter", ["paragraph"]),
        ("text\n---\nmore", ["heading", "paragraph"]),
        ("a\fb", ["paragraph", "paragraph"]),
    ],
)
def test_odd_markdown(text: str, kinds: list[str]) -> None:
    blocks = [block.kind for block in markdown_blocks(text)]
    assert blocks == kinds or (text == "a\fb" and blocks == ["paragraph"])


@given(
    st.lists(
        st.sampled_from(["# a", "", "```", "~~~", "| b |", "- c", "  d", "text", "===", "--|--"]),
        max_size=30,
    )
)
def test_blocks_of_any_markdown_are_ordered_and_hold_all_but_blanks(lines: list[str]) -> None:
    text = "\n".join(lines)
    blocks = list(markdown_blocks(text))
    edges = [edge for block in blocks for edge in (block.start, block.end)]
    assert edges == sorted(edges)
    assert all(text[block.start : block.end].strip() for block in blocks)
    between = [0, *edges, len(text)]
    outside = "".join(text[a:b] for a, b in zip(between[::2], between[1::2], strict=True))
    assert set(outside) <= {"\n", " ", "=", "-"}


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("第一章 总则", 1),
        ("第 3 章 水泵", 1),
        ("第二编　物权", 1),
        ("第十二节 附则", 2),
        ("第三条", 3),
        ("Chapter 2", 1),
        ("Chapter IV The Pump", 1),
        ("Section 3 Spare parts", 2),
        ("一、开放时间", 2),
        ("1.1 班次", 2),
        ("1.1. Shifts", 2),
        ("1.1.1 Night shift", 3),
        ("1.1班次", 2),
    ],
)
def test_numbered_lines_are_headings(line: str, level: int) -> None:
    text = f"Before.\n\n{line}\nAfter it the text goes on."
    assert shown(text, list(numbered_headings(text))) == [("heading", level, line)]


@pytest.mark.parametrize(
    "line",
    [
        "第三条 本法所称水泵，是指把水送到高处的设备。",
        "第一章 总则 ........ 3",
        "第一章 总则\t3",
        "第一章 总则 12",
        "Chapter 2 says that pumps are safe, and so they are.",
        "Chapters are long",
        "3.5 千克",
        "1.1 1.2 1.3",
        "7.2 kg of salt",
        "1.1 The pump starts. Then it stops.",
        "一、二月气温较低，不宜移栽。",
        "2024.01.05 meeting",
        "12.00 noon",
    ],
)
def test_sentences_contents_and_figures_are_not(line: str) -> None:
    text = f"Before.\n\n{line}\nAfter."
    assert list(numbered_headings(text)) == []


def test_numbers_with_points_must_count_on() -> None:
    text = (
        "1.1 One\nx\n1.2 Two\nx\n9.7 metres\nx\n1.3 Three\nx\n1.3.1 Deep\nx\n2.1 Next\nx\n1.1 One"
    )
    found = [text[block.start : block.end] for block in numbered_headings(text)]
    assert found == ["1.1 One", "1.2 Two", "1.3 Three", "1.3.1 Deep", "2.1 Next"]


def test_an_enumeration_is_a_heading_only_after_a_blank_line() -> None:
    text = "一、开放时间\n正文\n二、门票\n\n三、退票\n正文"
    found = [text[block.start : block.end] for block in numbered_headings(text)]
    assert found == ["一、开放时间", "三、退票"]


def test_a_text_file_keeps_every_character(tmp_path: Path) -> None:
    text = "第一章 总则\r\n\r\n　　水泵把水送到高处。\r\n"
    document = parsed(tmp_path, text.encode("gb18030"), "规章.txt")
    assert document.text == text.replace("\r\n", "\n")
    assert (document.kind, document.encoding, document.pages) == ("txt", "gb18030", ())
    assert shown(document.text, list(document.blocks)) == [("heading", 1, "第一章 总则")]


def test_damage_is_told_and_an_encoding_can_be_asked_for(tmp_path: Path) -> None:
    data = "水泵把水送到高处。".encode() * 9 + b"\xff"
    document = parsed(tmp_path, data, "a.txt")
    assert document.warnings == (Notice("Damaged characters: {n}, shown as \ufffd.", n=1),)
    asked = parsed(tmp_path, "Höhe".encode("cp1252"), "a.md", "cp1252")
    assert (asked.text, asked.encoding) == ("Höhe", "cp1252")
    with pytest.raises(DocumentError, match="cannot be read as utf-8"):
        parsed(tmp_path, "Höhe".encode("cp1252"), "a.txt", "utf-8")


def test_a_markdown_title_is_the_document_s(tmp_path: Path) -> None:
    assert parsed(tmp_path, "intro\n\n# The *Guide* #\n\ntext", "a.md").title == "The *Guide*"
    assert parsed(tmp_path, "## Only a section\n\ntext", "a.md").title == ""


def test_millions_of_blocks_are_capped_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain, "MAX_BLOCKS", 3)
    document = parsed(tmp_path, "a\n\n" * 10, "a.md")
    assert len(document.blocks) == 3
    assert document.text == "a\n\n" * 10
    assert "Only the first 3" in str(document.warnings[0])


@pytest.mark.parametrize("data", ["\ufeff \n\t", "\x00\x01", "\u200b"])
def test_a_text_without_text_is_refused(tmp_path: Path, data: str) -> None:
    if data == "\u200b":  # It has no letters, but somebody wrote it.
        assert parsed(tmp_path, data, "a.txt").text == data
        return
    with pytest.raises(DocumentError):
        parsed(tmp_path, data, "a.txt")

"""Questions about a whole document: what they name, and what they want of it."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.query.file_question import parse_document_question, section_pattern


@pytest.mark.parametrize(
    ("text", "kind", "names"),
    [
        ("总结《停车场说明》", "summary", ("停车场说明",)),
        ("请总结一下停车场说明", "summary", ("停车场说明",)),
        ("停车场说明主要讲了什么？", "summary", ("停车场说明",)),
        ("停车场说明的主要内容是什么？", "summary", ("停车场说明",)),
        ("summarize the safety manual", "summary", ("safety manual",)),
        ("Could you please summarize the safety manual?", "summary", ("safety manual",)),
        ("Give me an overview of en_outline.pdf", "summary", ("en_outline.pdf",)),
        ("比较《停车场说明》和《安全手册》", "compare", ("停车场说明", "安全手册")),
        (
            "compare the safety manual and the parking guide",
            "compare",
            ("safety manual", "parking guide"),
        ),
        ("《停车场说明》里月卡多少钱？", "named", ("停车场说明",)),
        ("What does report.pdf say about costs?", "named", ("report.pdf",)),
    ],
)
def test_documents_are_named(text: str, kind: str, names: tuple[str, ...]) -> None:
    asked = parse_document_question(text)
    assert asked is not None and (asked.kind, asked.names) == (kind, names)


@pytest.mark.parametrize(
    ("text", "names", "page", "section"),
    [
        ("what is on page 4", (), 4, ""),
        ("what is on page 4 of the safety manual?", ("safety manual",), 4, ""),
        ("what's on slide 6?", (), 6, ""),
        ("安全手册第四页讲了什么？", ("安全手册",), 4, ""),
        ("手册第十二页的温度是多少", ("手册",), 12, ""),
        ("幻灯片6的内容是什么", (), 6, ""),
        ("What is in section 3.2?", (), None, "section 3.2"),
        ("what is in section 3.2 of the handbook", ("handbook",), None, "section 3.2"),
        ("第三章讲了什么", (), None, "第三章"),
        ("第4页", (), 4, ""),
        ("《租约》3.2节写了什么", ("租约",), None, "3.2"),
    ],
)
def test_pages_and_sections_are_named(
    text: str, names: tuple[str, ...], page: int | None, section: str
) -> None:
    asked = parse_document_question(text)
    assert asked is not None and asked.kind == "place"
    assert (asked.names, asked.page, asked.section) == (names, page, section)


@pytest.mark.parametrize(
    "text",
    [
        "停车场的月卡多少钱？",
        "How much does parking cost?",
        "总结一下",
        "summarize this document",
        "version 3.2 的新功能",
        "在第四节中，触地得分的球员姓什么？",
        "Python 3.11 有什么新特性",
        "",
        "x" * 1000,
    ],
)
def test_other_questions_name_no_document(text: str) -> None:
    assert parse_document_question(text) is None


def test_a_subject_is_surely_no_document() -> None:
    asked = parse_document_question("介绍一下光合作用")
    assert asked is not None and not asked.is_sure


@pytest.mark.parametrize(
    ("section", "heading", "is_it"),
    [
        ("3.2", "## 3.2 收费", True),
        ("3.2", "3.2.1 细则", False),
        ("3.2", "13.2 收费", False),
        ("第三章", "第3章 总则", True),
        ("第3章", "第三章 总则", True),
        ("第十二条", "第12条 违约", True),
        ("chapter 3", "Chapter 3 Rules", True),
        ("section 3", "3. Scope", True),
        ("section 3", "3.1 Scope", False),
        ("附录A", "附录 A 表", True),
        ("appendix B", "Appendix B: Tables", True),
    ],
)
def test_a_section_is_known_by_its_heading(section: str, heading: str, is_it: bool) -> None:
    assert bool(re.search(section_pattern(section), heading, re.M)) is is_it


@given(st.text(max_size=320))
def test_any_text_is_read(text: str) -> None:
    asked = parse_document_question(text)
    if asked and asked.section:
        re.compile(section_pattern(asked.section))


@pytest.mark.parametrize("text", ["和", "的", "a and ", "compare ", "第一", "page "])
def test_no_text_takes_long(text: str) -> None:
    started = time.process_time()
    parse_document_question((text * 300)[:300])
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    ("text", "names", "heading"),
    [
        ("What does “guide.md” say about “Booking”?", ("guide.md",), "Booking"),
        ("“员工手册.docx”里关于“年假”是怎么说的？", ("员工手册.docx",), "年假"),
        ("《手册》中“安全须知”一节有哪些内容？", ("手册",), "安全须知"),
        ("Read me the “On the day” section", (), "On the day"),
    ],
)
def test_a_section_is_named_by_its_heading(text: str, names: Any, heading: str) -> None:
    asked = parse_document_question(text)
    assert asked is not None and (asked.kind, asked.names) == ("place", names)
    assert asked.heading == heading


@pytest.mark.parametrize("text", ["What is said about “Booking”?", "关于“年假”有什么规定？"])
def test_quoted_words_alone_are_no_heading(text: str) -> None:
    asked = parse_document_question(text)
    assert asked is None or not asked.heading

"""Questions in traditional characters are understood as those in simplified ones."""

from __future__ import annotations

import json
from pathlib import Path

import opencc
import pytest

from rag.stages.query.analyze import analyze_query
from rag.stages.query.condense import condense_question
from rag.stages.query.conversation_request import parse_conversation_request
from rag.stages.query.file_question import (
    parse_document_question,
    parse_store_question,
    section_pattern,
)
from rag.stages.query.references import find_references
from rag.stages.text.simplified import written_forms
from rag.stages.text.terms import is_han

LABELLED = Path(__file__).parents[3] / "benchmarks" / "data" / "analysis_dev.jsonl"
TO_TRADITIONAL = opencc.OpenCC("s2t").convert


def questions() -> list[str]:
    rows = LABELLED.read_text(encoding="utf-8").splitlines()
    return [text for row in rows if is_han(text := json.loads(row)["text"])]


def test_analysis_is_the_same_and_words_are_as_written() -> None:
    differing = []
    for question in questions():
        written = TO_TRADITIONAL(question)
        plain, turned = analyze_query(question, {}), analyze_query(written, {})
        same = (plain.intent, plain.complexity) == (turned.intent, turned.complexity)
        if not same or len(plain.keywords) != len(turned.keywords):
            differing.append((question, plain, turned))
        assert all(word in written for word in turned.keywords)
    assert len(differing) <= 0.01 * len(questions()), differing


def test_names_of_the_vocabulary_are_known_in_either_form() -> None:
    for query, name in (("林黛玉與賈寶玉", "贾宝玉"), ("林黛玉与贾宝玉", "賈寶玉")):
        found = analyze_query(query, {"character": [name]})
        assert [(one.type, one.value) for one in found.entities] == [("character", query[-3:])]


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("請把剛才的回答翻譯成英文", "translate"),
        ("說簡單一點", "simpler"),
        ("總結一下我們剛才聊的內容", "summary"),
    ],
)
def test_requests_about_the_conversation(question: str, kind: str) -> None:
    found = parse_conversation_request(question)
    assert found is not None and found.kind == kind


def test_questions_about_the_files_of_a_store() -> None:
    found = parse_store_question("請問知識庫裡有多少個關於濾芯的文件？")
    assert found is not None and (found.kind, found.topic) == ("count", "滤芯")
    listed = parse_store_question("有哪些資料？")
    assert listed is not None and listed.kind == "list"


def test_named_documents_pages_and_sections_keep_their_names() -> None:
    summary = parse_document_question("請總結一下《停車場說明》")
    assert summary is not None
    assert (summary.kind, summary.names, summary.is_whole) == ("summary", ("停車場說明",), True)
    both = parse_document_question("比較請假制度和報銷制度的區別")
    assert both is not None and (both.kind, both.names) == ("compare", ("請假制度", "報銷制度"))
    page = parse_document_question("《安全手冊》第四頁講了什麼？")
    assert page is not None and (page.kind, page.page, page.names) == ("place", 4, ("安全手冊",))
    section = parse_document_question("附錄A的內容是什麼")
    assert section is not None and section.kind == "place"
    import re

    for asked, heading in (
        ("第三節", "第三节 费用"),
        ("第三节", "第三節 費用"),
        ("附录A", "附錄A 表格"),
    ):
        assert re.search(section_pattern(asked), heading)


def test_a_follow_up_is_made_to_stand_alone_in_its_own_characters() -> None:
    asked = condense_question("它的保修期多長？", ["請介紹HX-400水泵"])
    assert (
        asked.method == "entity" and "HX-400" in asked.text and asked.text.endswith("保修期多長？")
    )
    alone = condense_question("換個話題，會議室怎麼預訂？", ["請介紹HX-400水泵"])
    assert alone.text == "會議室怎麼預訂？"
    same = condense_question("發電機的維護周期是多久", [])
    assert same.text == "發電機的維護周期是多久"


def test_numbers_of_articles() -> None:
    (article,) = find_references("第十二條規定了什麼？")
    assert (
        article.is_in("第十二条 本办法") and article.is_in("第12條") and article.text == "第十二條"
    )
    (hundred,) = find_references("第兩百條規定了什麼？")
    assert hundred.is_in("第200条")


def test_a_name_is_looked_for_in_every_form() -> None:
    assert written_forms("停車場說明")[:2] == ("停車場說明", "停车场说明")
    assert "停車場說明" in written_forms("停车场说明")
    assert written_forms("HX-400") == ("HX-400",)

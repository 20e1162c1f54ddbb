"""What a query names: the vocabulary's names and what patterns know."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.analysis import CONTENT_TYPES
from rag.stages.query.entities import find_mentions

VOCABULARY = {
    "product": ["HX-400", "HX-400 Pro", "蓝鲸水泵"],
    "character": ["林黛玉", "Watson", "华盛顿"],
    "place": ["华盛顿", "Straße"],
}


def named(query: str, vocabulary: dict[str, object] | None = None) -> list[tuple[str, str]]:
    mentions = find_mentions(query, VOCABULARY if vocabulary is None else vocabulary)
    for mention in mentions:
        assert mention.value in query[mention.start : mention.end]
    return [(mention.type, mention.value) for mention in mentions]


def test_the_longest_name_wins() -> None:
    assert named("HX-400 Pro") == [("product", "HX-400 Pro")]
    assert named("HX-400 与 HX-400 Pro") == [("product", "HX-400"), ("product", "HX-400 Pro")]


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("hx-400", "hx-400"),
        ("ＨＸ－４００", "ＨＸ－４００"),
        ("WATSON's", "WATSON"),
        ("STRASSE", "STRASSE"),
    ],
)
def test_names_are_found_in_any_case_and_width_and_shown_as_written(query: str, value: str) -> None:
    assert named(query)[0][1] == value


def test_a_latin_name_stands_alone_and_a_chinese_one_anywhere() -> None:
    assert named("Watsonville and xHX-400x") == [("identifier", "xHX-400x")]
    assert named("问Watson吗") == [("character", "Watson")]
    assert named("大观园林黛玉传") == [("character", "林黛玉")]


def test_a_name_of_two_types_is_both() -> None:
    assert set(named("华盛顿")) == {("character", "华盛顿"), ("place", "华盛顿")}


def test_folding_that_makes_text_longer_keeps_places() -> None:
    assert named("ﬁﬁ HX-400 ㎏ Watson") == [("product", "HX-400"), ("character", "Watson")]


def test_the_mapping_of_content_types_names_nothing() -> None:
    assert named("manual", {f"{CONTENT_TYPES}product": ["manual"]}) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("《红楼梦》第五回", [("title", "红楼梦"), ("chapter", "第五回")]),
        ("Chapter 12 and chapter three", [("chapter", "Chapter 12"), ("chapter", "chapter three")]),
        (
            "第 12 条、3.2 节和附录 B",
            [("section", "第 12 条"), ("section", "3.2 节"), ("section", "附录 B")],
        ),
        (
            "clause 4.2, § 47 and article 6(1)",
            [("section", "clause 4.2"), ("section", "§ 47"), ("section", "article 6(1)")],
        ),
        ("第 88 页, page 7", [("page", "第 88 页"), ("page", "page 7")]),
        (
            "2024-03-15 / 2024年3月15日 / 二〇二三年",
            [("date", "2024-03-15"), ("date", "2024年3月15日"), ("date", "二〇二三年")],
        ),
        (
            "12 March 2024, May 5, 2023, June 2021, in 1999",
            [
                ("date", "12 March 2024"),
                ("date", "May 5, 2023"),
                ("date", "June 2021"),
                ("date", "1999"),
            ],
        ),
        (
            "200 bar, 50%, $5.50, 3 天, 五年, 14 days",
            [
                ("quantity", "200 bar"),
                ("quantity", "50%"),
                ("quantity", "$5.50"),
                ("quantity", "3 天"),
                ("quantity", "五年"),
                ("quantity", "14 days"),
            ],
        ),
        (
            "E-17 ISO 9001 GB/T 19001-2016 CVE-2021-44228 0x80070057 RFC2616 v2.3.1",
            [
                ("identifier", value)
                for value in (
                    "E-17",
                    "ISO 9001",
                    "GB/T 19001-2016",
                    "CVE-2021-44228",
                    "0x80070057",
                    "RFC2616",
                    "v2.3.1",
                )
            ],
        ),
        (
            '“不可抗力” and "force majeure" and 「改行」',
            [("quote", "不可抗力"), ("quote", "force majeure"), ("quote", "改行")],
        ),
        ("这本书的大纲 and the outline", [("outline", "大纲"), ("outline", "outline")]),
    ],
)
def test_patterns_know_what_has_a_form(query: str, expected: list[tuple[str, str]]) -> None:
    assert named(query, {}) == expected


@pytest.mark.parametrize(
    "query",
    [
        "哪一年",
        "第二天",
        "it may be",
        "march on",
        "5G 4K",
        "the 3rd",
        "B2B",
        "I/O and/or",
        "24/7",
        "x-ray",
        "don't",
        "article on law",
        "12 persons",
        "e.g.",
        "十分好",
    ],
)
def test_ordinary_words_and_numbers_are_no_entities(query: str) -> None:
    assert named(query, {}) == []


def test_a_name_alone_in_quotes_is_the_name() -> None:
    assert named("“林黛玉”是谁") == [("character", "林黛玉")]
    assert named("“林黛玉进贾府”") == [("quote", "林黛玉进贾府"), ("character", "林黛玉")]


@given(
    st.text(max_size=200),
    st.dictionaries(st.text(max_size=8), st.lists(st.text(max_size=8), max_size=5), max_size=4),
)
def test_every_mention_stands_in_the_query(query: str, vocabulary: dict[str, object]) -> None:
    named(query, vocabulary)


def test_ten_thousand_names_are_looked_up_fast() -> None:
    vocabulary = {"part": [f"part {n}" for n in range(10_000)]}
    find_mentions("warm", vocabulary)
    started = time.perf_counter()
    for _ in range(10):
        assert named("where is part 7777 kept", vocabulary) == [("part", "part 7777")]
    assert (time.perf_counter() - started) / 10 < 0.02

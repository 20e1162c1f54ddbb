"""Terms: words, stems, codes and bigrams, the same for text and query."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag.stages.text.terms import (
    BIGRAM_WEIGHT,
    content_terms,
    index_terms,
    is_han,
    is_identifier,
    query_terms,
    short_han_phrase,
)


def test_a_code_is_kept_whole_and_in_parts() -> None:
    terms = index_terms("Replace HX-4471-B first")
    assert {"hx-4471-b", "hx", "4471", "b"} <= set(terms)


def test_latin_words_are_stemmed_and_case_and_width_do_not_matter() -> None:
    assert index_terms("Running ＲＵＮ runs") == {"run": 3}
    assert query_terms("ran RUNNING") == {"ran": 1.0, "run": 1.0}


def test_digits_are_not_stemmed() -> None:
    assert index_terms("1990s 4471s") == {"1990s": 1, "4471s": 1}


def test_han_text_gives_words_long_ones_in_parts_too() -> None:
    assert set(index_terms("长江大桥")) == {"长江", "大桥", "长江大桥"}


def test_neighbouring_single_characters_give_their_bigram() -> None:
    assert "书馆" in index_terms("圖書館")
    assert {"化二", "二氮", "氧化"} <= set(index_terms("一氧化二氮"))


def test_a_bigram_across_a_particle_is_left_out() -> None:
    terms = index_terms("图书馆的设备")
    assert not {"馆的", "的设"} & set(terms)
    assert {"的", "设备"} <= set(terms)


def test_a_query_weighs_words_above_mere_bigrams() -> None:
    weights = query_terms("一氧化二氮")
    assert weights["一氧化二氮"] == 1.0
    assert weights["化二"] == BIGRAM_WEIGHT


def test_kana_and_hangul_runs_become_bigrams() -> None:
    assert "カタ" in index_terms("カタカナ")
    assert "한국" in index_terms("한국어")


def test_script_is_han_from_a_third_of_the_letters() -> None:
    assert is_han("什么是 RAG？")
    assert not is_han("The word 水 means water in that text")
    assert not is_han("12345 !!")


def test_identifiers_hold_a_digit() -> None:
    assert is_identifier("e-17")
    assert not is_identifier("pump")
    assert not is_identifier("17")


@given(st.text(max_size=200))
def test_a_text_always_shares_its_terms_with_itself_as_a_query(text: str) -> None:
    terms = index_terms(text)
    if terms:
        assert set(query_terms(text)) & set(terms)


@given(st.text(max_size=200))
def test_terms_are_never_empty_and_counts_positive(text: str) -> None:
    for term, count in index_terms(text).items():
        assert term.strip()
        assert count > 0


@given(st.text(alphabet="水火山石图书馆设备的在", max_size=20))
def test_text_and_query_are_cut_alike(text: str) -> None:
    assert set(query_terms(text)) == set(index_terms(text))


def test_a_phrase_is_a_few_han_characters_and_nothing_else() -> None:
    assert short_han_phrase(" 水泵？") == "水泵"
    assert short_han_phrase("水") == "水"
    assert short_han_phrase("水泵的压力") == ""
    assert short_han_phrase("水 pump") == ""
    assert short_han_phrase("") == ""


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("How long do I ventilate after a UV lamp breaks?", "ventil uv lamp break"),
        ("紫外线灯破了以后要通风多少分钟？", "紫外线 紫外 外线 灯破 通风 分钟"),
        ("Who runs IT support at the WHO?", "run it support who"),
        ("WHAT IS THE FEE", "fee"),
        ("hepatitis A?", "hepat a"),
        ("a how-to guide, isn't it?", "how-to guid isn't isn"),
        ("what is HX-1-A", "hx-1-a hx 1 a"),
        ("to be or not to be", "to be or not"),
        ("什么", "什么"),
        ("ｔｈｅ ｐｕｍｐ 的 水泵", "pump 水泵"),
    ],
)
def test_a_search_asks_for_words_with_content(query: str, terms: str) -> None:
    assert set(content_terms(query)) == set(terms.split())


@given(st.text(max_size=80))
@example("ῢ")
@example("\0𠀀")
@example("İstanbul-ῢx 3")
@example("3Θ-ρ\u0345ὧ it\u0345x")
def test_content_terms_are_some_of_the_query_s(text: str) -> None:
    asked = content_terms(text)
    assert asked.items() <= query_terms(text).items() or unicodedata.normalize("NFKC", text) != text
    assert bool(asked) == bool(query_terms(text))

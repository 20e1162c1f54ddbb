"""Terms: words, stems, codes and bigrams, the same for text and query."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag.stages.text.terms import (
    BIGRAM_WEIGHT,
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
    assert {"书馆", "圖書"} & set(index_terms("圖書館"))
    assert {"化二", "二氮", "氧化"} <= set(index_terms("一氧化二氮"))


def test_a_bigram_across_a_particle_is_left_out() -> None:
    terms = index_terms("图书馆的设备")
    assert not {"馆的", "的设"} & set(terms)
    assert {"的", "设备"} <= set(terms)


def test_a_query_weighs_words_above_mere_bigrams() -> None:
    weights = query_terms("一氧化二氮")
    assert weights["一氧化二氮"] == 1.0
    assert weights["化二"] == BIGRAM_WEIGHT


def test_traditional_characters_stay_as_written() -> None:
    assert "圖書" in index_terms("圖書館")
    assert "图书" not in index_terms("圖書館")


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

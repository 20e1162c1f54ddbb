"""Simplified form of texts that are embedded and cut into terms; other languages stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.text.simplified import (
    embedded_text,
    simplify_chinese,
    to_traditional,
    written_forms,
)
from rag.stages.text.terms import content_terms, index_terms, query_terms


@pytest.mark.parametrize(
    ("text", "simplified"),
    [
        ("圖書館的開放時間", "图书馆的开放时间"),
        ("電腦軟體", "电脑软体"),
        # A word decides, where one character has several forms.
        ("乾隆瞭望，瞭解，乾杯，乾坤", "乾隆瞭望，了解，干杯，乾坤"),
        ("衞生署敍述", "卫生署叙述"),
        ("著名的藉口", "著名的借口"),
        ("图书馆的理发师在皇后大道", "图书馆的理发师在皇后大道"),
        ("HX-900 之電壓為 220V（±5 %）", "HX-900 之电压为 220V（±5 %）"),
        ("約翰・史密斯", "约翰・史密斯"),
        ("Größe „groß“ – naïve", "Größe „groß“ – naïve"),
        ("", ""),
    ],
)
def test_traditional_chinese_is_embedded_in_simplified_form(text: str, simplified: str) -> None:
    assert embedded_text(text) == simplify_chinese(text) == simplified


@pytest.mark.parametrize(
    "text",
    [
        "電車の遅延証明書は駅の窓口で発行しています。",
        "図書館",
        "電気料金",
        "営業時間\n東京電力株式会社は電気を供給する。",
        "會議は國際廳で開かれます",
        "대한민국의 憲法 第一條",
        "テレビ電話",
    ],
)
def test_japanese_and_korean_are_embedded_as_written(text: str) -> None:
    assert embedded_text(text) == text


def test_a_japanese_sentence_within_a_chinese_text_stays() -> None:
    text = "本館於每週一閉館，開放時間為上午九時。電車で来る。請攜帶讀者證入場！"
    assert (
        embedded_text(text)
        == "本馆于每周一闭馆，开放时间为上午九时。電車で来る。请携带读者证入场！"
    )


def test_terms_are_the_same_in_both_forms_also_in_japanese() -> None:
    assert index_terms("圖書館的開放時間") == index_terms("图书馆的开放时间")
    assert query_terms("圖書館") == query_terms("图书馆")
    assert content_terms("請問圖書館什麼時候開放？") == content_terms("请问图书馆什么时候开放？")
    assert query_terms("電気料金").keys() <= index_terms("電気料金は毎月支払う").keys()


def test_terms_as_written_are_there_for_indexes_of_older_versions() -> None:
    assert "圖書" in content_terms("圖書館", is_simplified=False)
    assert content_terms("图书馆", is_simplified=False) == content_terms("图书馆")


@given(st.text(alphabet=st.characters(codec=None), max_size=80))
def test_no_text_fails_and_nothing_but_chinese_changes(text: str) -> None:
    for changed in (simplify_chinese(text), embedded_text(text)):
        assert changed == text or any(one >= "\u3400" for one in text)


def test_a_text_goes_on_behind_what_the_converter_cannot_take() -> None:
    for sign in ("\0", "\ud800"):
        assert simplify_chinese(f"軟體{sign}體積") == f"软体{sign}体积"
        assert to_traditional(f"软体{sign}体积") == f"軟體{sign}體積"
        assert f"软体{sign}体积" in written_forms(f"軟體{sign}體積")

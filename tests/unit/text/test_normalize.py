"""What folding makes equal, what it keeps apart, and the way back to the original."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag.stages.text import normalize
from rag.stages.text.normalize import fold_letters, normalize_quote, normalize_quotes

SAME = {
    "width": ("ＨＸ－４００（一）", "HX-400(一)"),
    "case": ("The PUMP stops", "the pump stops"),
    "quotes": ("“off” and ‘on’", "\"off\" and 'on'"),
    "marks in marks": ("he said “off”", "he said 'off'"),
    "corner brackets": ("「停机」", "“停机”"),
    "dashes": ("10–15 °C — always", "10-15 °C - always"),
    "double dash": ("注意——危险", "注意—危险"),
    "ellipsis": ("稍等……好", "稍等...好"),
    "chinese stops": ("等待，然后重启。", "等待,然后重启."),
    "hyphen at a line end": ("a ventil-\nation shaft", "a ventilation shaft"),
    "hyphen of the word at a line end": ("a well-\nknown part", "a well-known part"),
    "soft hyphen": ("venti\u00adlation", "ventilation"),
    "digit and hyphen at a line end": ("a 3-\nphase motor", "a 3-phase motor"),
    "ligatures": ("the ﬁrst ﬂow of oﬃce air", "the first flow of office air"),
    "ligature at a line end": ("deﬁ-\nning", "defining"),
    "width and hyphen": ("ｗell-ｋnown", "well-known"),
    "kangxi radicals": ("⽤⼾⼿册", "用户手册"),
    "simplified radicals": ("⻚⻓⻢⻋", "页长马车"),
    "white space": ("wait\u00a0 15\n\tminutes", "wait 15 minutes"),
    "space beside han": ("等待 15 分钟", "等待15分钟"),
    "line break in han": ("重新启\n动水泵", "重新启动水泵"),
    "zero width": ("E\u200b21\ufeff", "E21"),
    "emphasis": ("**never** open `valve`", "never open valve"),
    "italics": ("_never_ open the *blue* valve", "never open the blue valve"),
    "strong italics": ("___never___ open __it now__.", "never open it now."),
    "traditional characters": ("滯納金於條約裡規定", "滞纳金于条约里规定"),
    "a form of a form": ("薴", "苧"),
    "composed accents": ("caf\u00e9", "cafe\u0301"),
    "sharp s": ("Straße", "STRASSE"),
    "full-width hyphen": ("Ｓｉｘ－ｔｉｍｅ winner", "Six-time winner"),
    "full-width points": ("当然．．．．．．好", "当然……好"),
    "acute as an apostrophe": ("don´t", "don't"),
}
APART = {
    "underscore in a name": ("max_tokens", "maxtokens"),
    "underscore before a name": ("_private", "private"),
    "digits": ("15 minutes", "51 minutes"),
    "space between digits": ("1 5 minutes", "15 minutes"),
    "line break between digits": ("1\n5", "15"),
    "decimal point": ("1.5 l", "15 l"),
    "sign": ("-5 °C", "5 °C"),
    "product": ("2*3", "23"),
    "power": ("10² units", "102 units"),
    "percent": ("5 %", "5"),
    "word order": ("A before B", "B before A"),
    "negation": ("不得清洗", "得清洗"),
    "comparison": ("< 5 mg", "> 5 mg"),
    "part number": ("HX-4471-B", "HX-4417-B"),
    "range": ("2020-\n2021", "20202021"),
}
SIGNS = "aB1_後裡 \n\f\u00a0-–—.…*²５ﬁ⽤“”'\"不水，。\u00ad\u200bé\u0301\U0001f600"


@pytest.mark.parametrize("name", SAME)
def test_typography_makes_no_difference(name: str) -> None:
    left, right = SAME[name]
    assert normalize_quote(left).text == normalize_quote(right).text


@pytest.mark.parametrize("name", SAME)
def test_typography_leaves_the_same_letters(name: str) -> None:
    left, right = ([*filter(str.isalnum, fold_letters(text))] for text in SAME[name])
    assert left == right == [*filter(str.isalnum, normalize_quote(SAME[name][0]).text)]


@pytest.mark.parametrize("name", APART)
def test_meaning_makes_a_difference(name: str) -> None:
    left, right = APART[name]
    assert normalize_quote(left).text != normalize_quote(right).text


def test_a_span_leads_back_to_the_original() -> None:
    original = "Before: the ﬁrst\n  ventil-\nation — “off”."
    folded = normalize_quote(original)
    at = folded.text.index("firstventilation")
    start, end = folded.span(at, at + len("firstventilation"))
    assert original[start:end] == "ﬁrst\n  ventil-\nation"


def test_a_span_far_in_is_found_as_exactly() -> None:
    original = "水 pump—\n" * 5000 + "the ﬁnal word" + " pump" * 500
    folded = normalize_quote(original)
    at = folded.text.index("finalword")
    start, end = folded.span(at, at + 9)
    assert original[start:end] == "ﬁnal word"


def test_part_of_a_ligature_is_the_whole_ligature() -> None:
    folded = normalize_quote("oﬃce")
    assert folded.text == "office"
    assert folded.span(2, 3) == (1, 2)


def test_nothing_folds_to_nothing() -> None:
    assert normalize_quote("").text == ""
    assert normalize_quote(" \n\u200b").text == ""


def test_every_character_is_as_long_as_it_is_measured() -> None:
    for code in range(0x2FA20):
        folded = normalize_quote(chr(code))
        if folded.text:
            assert folded.span(0, len(folded.text)) == (0, 1)


@given(st.lists(st.text(st.sampled_from(SIGNS + normalize._BORDER), max_size=40), max_size=6))
@example(["_a", "_"])
@example(["_a", "b_"])
def test_many_texts_are_folded_as_each_one_alone(texts: list[str]) -> None:
    for folded, text in zip(normalize_quotes(texts), texts, strict=True):
        assert (folded.text, folded.original) == (normalize_quote(text).text, text)
        if folded.text:
            assert folded.span(0, len(folded.text)) == normalize_quote(text).span(
                0, len(folded.text)
            )


@given(st.text(st.sampled_from(SIGNS) | st.characters(), max_size=300), st.data())
def test_every_span_covers_what_it_was_folded_from(text: str, data: st.DataObject) -> None:
    folded = normalize_quote(text)
    if not folded.text:
        return
    start = data.draw(st.integers(0, len(folded.text) - 1))
    end = data.draw(st.integers(start + 1, len(folded.text)))
    first, last = folded.span(start, end)
    assert 0 <= first < last <= len(text)
    before, after = folded.span(0, end), folded.span(start, len(folded.text))
    assert before[0] <= first
    assert after[1] >= last


@given(st.text(st.sampled_from("ab 水火，。\n"), max_size=200), st.data())
def test_a_piece_of_a_text_without_numbers_is_found_folded(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    piece = text[start : data.draw(st.integers(start, len(text)))]
    assert normalize_quote(piece).text in normalize_quote(text).text


@given(st.text(max_size=200))
def test_folding_is_blind_to_width_case_and_composition(text: str) -> None:
    wide = text.translate({code: code + 0xFEE0 for code in range(0x41, 0x5B)})
    assert normalize_quote(wide).text == normalize_quote(text).text
    composed = unicodedata.normalize("NFC", text)
    assert (
        normalize_quote(composed).text
        == normalize_quote(unicodedata.normalize("NFC", composed)).text
    )

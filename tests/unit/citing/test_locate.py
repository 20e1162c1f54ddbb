"""A quote in its source: exact, clipped at its ends, alike, or not there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.citing.locate import QuotePlace, locate_quote
from rag.stages.text.normalize import normalize_quote


def locate(quote: str, source: str, **more: bool) -> QuotePlace | None:
    return locate_quote(normalize_quote(quote).text, normalize_quote(source), **more)


CLIPPED = [
    ("5 days", "within 15 days"),
    ("15", "about 150 units"),
    ("000 yuan", "15,000 yuan"),
    ("5 mg", "1.5 mg"),
    ("1", "1.5 mg"),
    ("5 °C", "down to -5 °C"),
    ("15 days", "10-15 days"),
    ("you can", "you cannot open it"),
    ("it do", "it does not"),
    ("able to run", "unable to run"),
    ("15 minute", "15 minutes"),
    ("we can", "we can't open it"),
    ("toxic gas", "non-toxic gas"),
    ("得清洗", "滤网不得清洗"),
    ("be opened", "must not be opened"),
    ("open it", "never open it"),
    ("超过 5", "超过 5 万元"),
    ("about 5", "about 5%"),
    ("at 10", "at 10:30"),
    ("21 以后", "E21 以后"),
    ("从 5", "从 5 到 10 天"),
]
WHOLE = [
    ("15 days", "within 15 days."),
    ("the pump", "Stop the pump"),
    ("等待 15 分钟", "须等待15分钟让电机冷却"),
    ("清洗后", "不得清洗后使用"),
    ("5 apples", "- 5 apples"),
    ("in 2019", "in 2019, then"),
    ("E21", "显示E21以后"),
    ("valve 2", "valve 2. Then"),
    ("well-known", "a well-\nknown part of the old machine"),
]


@pytest.mark.parametrize(("quote", "source"), CLIPPED)
def test_a_quote_that_cuts_a_word_number_or_negation_is_altered(quote: str, source: str) -> None:
    place = locate(quote, source)
    assert locate(quote, source, is_exact=True) is None
    assert place is not None
    assert place.distance >= 1
    assert normalize_quote(quote).text in normalize_quote(source[place.start : place.end]).text


@pytest.mark.parametrize(("quote", "source"), WHOLE)
def test_a_part_of_a_sentence_is_exact(quote: str, source: str) -> None:
    place = locate(quote, source)
    assert place is not None
    assert place.distance == 0


def test_a_clipped_place_is_passed_over_for_a_whole_one() -> None:
    source = "within 15 days, or within 5 days"
    place = locate("5 days", source)
    assert place == QuotePlace(26, 32, 0)


def test_the_whole_word_is_shown_for_a_clipped_one() -> None:
    source = "Pay 15,000 yuan now."
    place = locate("000 yuan", source)
    assert place is not None
    assert source[place.start : place.end] == "15,000 yuan"
    assert place.distance == 3


def test_the_closest_span_is_given_with_its_distance() -> None:
    source = "First rinse it. Then wait 15 minutes until the motor is cool. Restart."
    place = locate("Then wait 50 minutes until the motor is cool.", source)
    assert place is not None
    assert source[place.start : place.end] == "Then wait 15 minutes until the motor is cool."
    assert place.distance == 2


def test_another_text_is_not_near() -> None:
    assert locate("The moon orbits the earth.", "每180天校准一次液位传感器") is None
    assert locate("anything", "") is None
    assert locate("", "anything") is None


def test_a_quote_longer_than_its_source_is_altered() -> None:
    place = locate("wait 15 minutes and then restart", "wait 15 minutes and then")
    assert place is not None
    assert (place.start, place.end) == (0, 24)
    assert place.distance == 7


def test_thousands_of_clipped_places_end_soon() -> None:
    assert locate("aa", "a" * 20_000, is_exact=True) is None


@given(st.text(max_size=60), st.text(max_size=200))
def test_no_input_raises_and_places_lie_inside(quote: str, source: str) -> None:
    place = locate(quote, source)
    if place is not None:
        assert 0 <= place.start < place.end <= len(source)


SENTENCE = "滤网在每次停机以后必须用清水冲洗干净，不得重复使用。"
BROKEN_OFF = [
    SENTENCE[:-4],
    SENTENCE[3:],
    SENTENCE[2:-3],
    f"先关泵。{SENTENCE[:-5]}",
    "Ten days of leave are granted only after ten years of",
    "days of leave are granted only after ten years of service",
    "of leave are granted only after ten years of service.",
]
CLAUSES = [
    SENTENCE,
    SENTENCE[:-1],
    "先关泵。",
    "用清水冲洗",
    "ten days of leave are granted only after ten years of service",
    "ten years of service",
]


@pytest.mark.parametrize("quote", BROKEN_OFF)
def test_most_of_a_sentence_that_breaks_off_in_a_clause_is_altered(quote: str) -> None:
    source = (
        f"先关泵。{SENTENCE}\nThe ten days of leave are granted only after ten years of service."
    )
    place = locate(quote, source)
    assert place is not None
    assert locate(quote, source, is_exact=True) is None
    assert place.distance >= 1
    assert source[place.start : place.end].strip("。. ").endswith(("使用", "干净", "service"))


@pytest.mark.parametrize("quote", CLAUSES)
def test_whole_clauses_and_short_phrases_are_exact(quote: str) -> None:
    source = (
        f"先关泵。{SENTENCE}\nThe ten days of leave are granted only after ten years of service."
    )
    place = locate(quote, source, is_exact=True)
    assert place is not None


@pytest.mark.parametrize(
    ("quote", "source"),
    [
        ("禁止在运行时打开蓝色阀门", "标牌上写着“禁止在运行时打开蓝色阀门”几个字。"),
        ("水泵在夜间停止运转（保养期除外）", "水泵在夜间停止运转（保养期除外）。"),
        ("the pump stops at night", "And the pump stops at night."),
        ("Open the blue valve by hand", "1. Open the blue valve by hand\n2. Close it"),
    ],
)
def test_marks_and_joining_words_may_be_left_off(quote: str, source: str) -> None:
    assert locate(quote, source, is_exact=True) is not None


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        (
            "Wait 15 or so minutes until the motor is cool",
            "Wait 15 minutes until the motor is cool",
        ),
        ("Wait until the motor is cool, then", "minutes until the motor is cool, then"),
        ("等待五十分钟让电机冷却", "等待十五分钟让电机冷却"),
    ],
)
def test_the_closest_span_has_the_quote_s_own_ends(quote: str, found: str) -> None:
    source = "Stop it. Wait 15 minutes until the motor is cool, then restart it. 须等待十五分钟让电机冷却后重启。"
    place = locate(quote, source)
    assert place is not None
    assert source[place.start : place.end] == found


@given(
    st.lists(
        st.text(st.sampled_from("水火土木金"), min_size=2, max_size=12), min_size=1, max_size=9
    ),
    st.data(),
)
def test_any_run_of_clauses_is_exact(clauses: list[str], data: st.DataObject) -> None:
    marked = [clause + data.draw(st.sampled_from("，。；")) for clause in clauses]
    first = data.draw(st.integers(0, len(marked) - 1))
    last = data.draw(st.integers(first + 1, len(marked)))
    place = locate("".join(marked[first:last]), "".join(marked), is_exact=True)
    assert place is not None
    assert place.distance == 0

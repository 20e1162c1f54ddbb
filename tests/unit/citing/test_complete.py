"""What a cut quote belongs to: words, numbers, clauses, conditions, sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.citing.locate import expand_span, expand_to_words


def whole(quote: str, text: str, **more: bool) -> str:
    start = text.index(quote)
    begin, end = expand_span(text, start, start + len(quote), **more)
    return text[begin:end]


WORDS = [
    ("5 days", "within 15 days", "15 days"),
    ("000 yuan", "15,000 yuan", "15,000 yuan"),
    ("5 °C", "down to -5 °C", "-5 °C"),
    ("Six", "a Six-time winner", "Six-time"),
    ("about 3", "about 3000 万元", "about 3000 万"),
    ("about 5", "about 5 % less", "about 5 %"),
    ("be opened", "must not be opened", "not be opened"),
    ("得清洗", "滤网不得清洗", "不得清洗"),
    ("we can", "we can't open it", "we can't"),
    ("at 10", "at 10:30 sharp", "at 10:30"),
]


@pytest.mark.parametrize(("quote", "text", "found"), WORDS)
def test_words_and_numbers_become_whole(quote: str, text: str, found: str) -> None:
    start = text.index(quote)
    begin, end = expand_to_words(text, start, start + len(quote))
    assert text[begin:end] == found


TURNED = [
    ("The office opens at nine", "The office opens at nine, unless it snows."),
    ("The office opens at nine", "The office opens at nine, except on holidays."),
    ("The pump may be opened", "The pump may be opened, but not by visitors."),
    ("The pump may be opened", "The pump may be opened if the lamp is off and dark."),
    ("open the blue valve", "If the lamp is off, open the blue valve."),
    ("请在每月一日前提交材料", "请在每月一日前提交材料，节假日除外。"),
    ("员工可以带宠物上班", "员工可以带宠物上班，但须事先登记。"),
    ("可以打开蓝色阀门", "如果指示灯熄灭，可以打开蓝色阀门。"),
    ("他说水泵已经修好", "他说水泵已经修好，这不是真的。"),
]
TURNED += [
    (
        "Entry is allowed",
        "Entry is allowed, but only with a permit that was signed on the same day by the office.",
    ),
    (
        "open the blue valve",
        "If the lamp of the second hall is off and nobody works at the pump, open the blue valve.",
    ),
    ("员工可以带宠物", "员工可以带宠物；但须事先向行政部门登记并取得书面许可。"),
    ("員工可以帶寵物上班", "員工可以帶寵物上班，但須事先登記。"),
    (
        "可以打开蓝色阀门",
        "只要指示灯熄灭并且没有人在水泵旁边的平台上工作或者停留，可以打开蓝色阀门。",
    ),
    ("visitors may enter the hall", "As long as the lamp is off, visitors may enter the hall."),
]
KEPT = [
    ("The office opens at nine", "The office opens at nine, and it closes at five."),
    ("open the blue valve", "Turn off the lamp, open the blue valve."),
    ("nine", "The office opens at nine, unless it snows."),
    ("请在每月一日前提交材料", "请在每月一日前提交材料，由主管签字。"),
    ("必须等待十五分钟", "必须等待十五分钟；滤网不得清洗。"),
    ("滤网不得清洗", "如果过热，必须等待；滤网不得清洗。"),
]


@pytest.mark.parametrize(("quote", "text"), TURNED)
def test_clauses_are_not_whole_without_what_turns_them(quote: str, text: str) -> None:
    assert quote in whole(quote, text)
    assert whole(quote, text) != quote


@pytest.mark.parametrize(("quote", "text"), KEPT)
def test_clauses_and_phrases_stand_for_themselves(quote: str, text: str) -> None:
    assert whole(quote, text) == quote


@pytest.mark.parametrize(
    ("quote", "text", "found"),
    [
        (
            "The office",
            "Come in. The office opens at nine every day. Go.",
            "The office",
        ),
        (
            "The office opens at nine every",
            "Come in. The office opens at nine every day. Go.",
            "The office opens at nine every day",
        ),
        (
            "office opens at nine every day",
            "Come in. The tall office opens at nine every day. Go.",
            "The tall office opens at nine every day",
        ),
        (
            "滤网在每次停机以后必须用",
            "滤网在每次停机以后必须用清水冲洗。",
            "滤网在每次停机以后必须用清水冲洗",
        ),
    ],
)
def test_most_of_a_sentence_is_completed_and_a_phrase_is_not(
    quote: str, text: str, found: str
) -> None:
    assert whole(quote, text) == found


STRICT = [
    ("The office opens at nine", "The office opens at nine, and it closes at five.", False),
    ("nine", "The office opens at nine.", False),
    ("The office opens at nine", "The office opens at nine.", True),
    ("The office opens at nine.", "1. The office opens at nine.\n2. It closes.", True),
    ("office opens at nine.", "The office opens at nine.", False),
    ("先停机。再等待。", "先停机。再等待。最后重启。", True),
    ("停机。再等待。", "先停机。再等待。最后重启。", False),
]


@pytest.mark.parametrize(("quote", "text", "is_whole"), STRICT)
def test_whole_sentences_can_be_asked_for(quote: str, text: str, is_whole: bool) -> None:
    assert (whole(quote, text, is_strict=True) == quote) == is_whole


@given(st.text(st.sampled_from("ab 1水火不，。,.;；\n\f(“”)-"), min_size=1, max_size=80), st.data())
def test_a_span_only_grows_and_what_it_grew_to_is_whole_in_words(
    text: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    for is_strict in (False, True):
        begin, finish = expand_span(text, start, end, is_strict=is_strict)
        assert 0 <= begin <= start < end <= finish <= len(text)

"""Follow-ups made to stand alone by rules: the subject is carried, replaced, or dropped."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.conversation_turns import WITHOUT_PRONOUN, read_turns
from rag.stages.query.condense import MAX_EARLIER, condense_question


@pytest.mark.parametrize(
    ("query", "before", "text", "method"),
    [
        ("那它多少钱？", "HX-400 的保修期是多久？", "HX-400多少钱？", "entity"),
        (
            "How much does it cost?",
            "How long is the warranty of the HX-400?",
            "How much does HX-400 cost?",
            "entity",
        ),
        ("What are its parts?", "Is the HX-400 new?", "What are HX-400's parts?", "entity"),
        ("其价格呢", "HX-400 好吗", "HX-400的价格呢", "entity"),
        ("why?", "What is meant by a dry run?", "What is meant by a dry run? why?", "joined"),
        ("门票一般多少钱？", "京都几月份去最合适？", "京都：门票一般多少钱？", "subject"),
        ("那大阪呢？", "京都几月份去最合适？", "大阪几月份去最合适？", "parallel"),
        (
            "And the gear pump?",
            "Which oil does the centrifugal pump need?",
            "Which oil does the gear pump need?",
            "parallel",
        ),
        ("那这种合同要备案吗？", "租房合同要交税吗？", "租房合同要备案吗？", "entity"),
        (
            "Which gas is released?",
            "How does photosynthesis work?",
            "photosynthesis: Which gas is released?",
            "subject",
        ),
    ],
)
def test_a_follow_up_is_told_its_subject(query: str, before: str, text: str, method: str) -> None:
    condensed = condense_question(query, [before])
    assert (condensed.text, condensed.method) == (text, method)


@pytest.mark.parametrize(
    ("query", "before"),
    [
        ("公司食堂几点开饭？", "年假最多可以休几天？"),
        ("Which isolation levels does PostgreSQL support?", "How do I limit a container's memory?"),
        ("《西游记》的作者是谁？", "公积金怎么提取？"),
        ("What is the function of mitochondria?", "How does photosynthesis work?"),
    ],
)
def test_a_question_with_a_subject_of_its_own_drops_the_one_before(query: str, before: str) -> None:
    condensed = condense_question(query, [before])
    assert (condensed.text, condensed.method) == (query, "none")
    follow_up = condense_question("多少钱？" if query > "一" else "How much?", [before, query])
    assert before not in follow_up.text


def test_a_change_of_subject_that_is_announced_is_one() -> None:
    assert condense_question("换个话题，门票多少钱？", ["京都好玩吗？"]).text == "门票多少钱？"
    asked = condense_question("Another question: who pays?", ["How is the pump serviced?"])
    assert (asked.text, asked.method) == ("who pays?", "none")


def test_the_subject_lasts_over_turns_that_leave_it_out() -> None:
    said = ["京都几月份去最合适？", "门票一般多少钱？", "住哪里比较方便？", "那大阪呢？"]
    assert condense_question("有哪些小吃？", said).text == "大阪：有哪些小吃？"
    for n in range(1, 10):
        later = condense_question("贵吗？", ["京都几月份去最合适？", *["要门票吗？"] * n])
        assert "京都" in later.text and len(later.text) < 40, "it is no longer at every turn"


def test_the_first_question_stands_alone() -> None:
    assert condense_question("多少钱？", []).text == "多少钱？"
    assert condense_question("", ["x"]).text.strip() in ("", "x")


def test_a_long_conversation_is_read_in_bounded_time() -> None:
    said = [f"第{n}台水泵多少钱？ {'x' * 4000}" for n in range(2000)]
    started = time.process_time()
    text = condense_question("怎么安装？", said).text
    assert time.process_time() - started < 1 and len(text) < 600
    assert condense_question("怎么安装？", said[-MAX_EARLIER:]).text == text


@given(st.lists(st.text(max_size=60), max_size=6), st.text(max_size=80))
def test_any_texts_give_a_question_that_is_bounded(earlier: list[str], query: str) -> None:
    condensed = condense_question(query, earlier)
    assert condensed.method in ("none", "entity", "parallel", "subject", "joined")
    assert len(condensed.text) <= 1000
    if not any(text.strip() for text in earlier):
        assert condensed.method == "none"


@pytest.mark.parametrize("half", ["tune", "report"])
def test_most_follow_ups_without_a_pronoun_stand_alone(half: str) -> None:
    turns = [turn for turn in read_turns(half) if turn.kind in WITHOUT_PRONOUN]
    held = [t for t in turns if t.holds(condense_question(t.question, t.earlier).text)]
    assert len(turns) >= 100 and len(held) / len(turns) >= 0.85

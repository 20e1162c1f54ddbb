"""Answers that repeat their question: what they add to it must stand where that is spoken of."""

from __future__ import annotations

import pytest

from rag.core.hits import Hit
from rag.stages.citing.verify import AnswerWriter, verify_answer
from rag.stages.prompting.context import Passage
from tests.unit.passages import make_passages

HOUSE = (
    "Rooms are booked at the desk. Whoever loses the key badge of an event room pays 60 yuan for"
    " a new one. A projector costs 25 yuan an hour. Open until 22:00, but not on Monday."
)
RACK = (
    "出现 E21 时，先断开水泵电源，等待 15 分钟让电机冷却，然后再重新启动。E22：水位过低，加水至标线。"
    "营养液每 14 天更换一次，灯管的寿命约为 8,000 小时。"
)
PASSAGES = make_passages(HOUSE, RACK)
LOST = "What is the cost for losing the key badge of an event room?"
WAIT = "水培架显示 E21 以后，要等多久才能重新启动水泵？"


def verdicts(answer: str, question: str) -> list[tuple[str, str]]:
    found = verify_answer(answer, PASSAGES, question=question)
    return [(one.verdict, one.reason) for one in found.groundedness.statements]


RIGHT = {
    "a cost": (LOST, "The cost for losing the key badge of an event room is 60 yuan."),
    "a time in Chinese": (WAIT, "水培架显示 E21 以后，要等 15 分钟才能重新启动水泵。"),
    "a person": (
        "Who must pay the cost of a new key badge for an event room?",
        "Whoever loses it must pay the cost of a new key badge for an event room.",
    ),
    "an interval": ("多少天需要更换一次营养液？", "营养液需要每14天更换一次。"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_answers_the_question_is_held_whatever_the_question_is_worded_like(name: str) -> None:
    question, answer = RIGHT[name]
    assert verdicts(answer, question) == [("attributed", "")]


WRONG = {
    "another number": (LOST, "The cost for losing the key badge of an event room is 70 yuan."),
    "a number of another thing": (
        LOST,
        "The cost for losing the key badge of an event room is 25 yuan.",
    ),
    "a denial": (LOST, "The cost for losing the key badge of an event room is not 60 yuan."),
    "a code that nobody has": (
        "水培架显示 E29 以后，要等多久才能重新启动水泵？",
        "水培架显示 E29 以后，要等 15 分钟才能重新启动水泵。",
    ),
    "no number where one is asked for": (
        "How many yuan is the cost for losing the key badge of an event room?",
        "The cost for losing the key badge of an event room is booked at the desk.",
    ),
    "a sentence of the same that says nothing of it": (
        "When is the desk of the event rooms open?",
        "The desk of the event rooms is open at 25.",
    ),
    "one sign that nobody wrote": ("出现 E21 时先断开什么电源？", "出现 E21 时先断开灯电源。"),
    "another subject": (
        "What is the cost of parking a lorry at the harbour?",
        "The cost of parking a lorry at the harbour is 60 yuan.",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_words_of_a_question_hold_no_answer(name: str) -> None:
    question, answer = WRONG[name]
    assert [verdict for verdict, _ in verdicts(answer, question)] != ["attributed"]


def test_a_question_changes_nothing_for_what_does_not_repeat_it() -> None:
    for answer in ("A projector costs 25 yuan an hour.", "Lorries park for 12 yuan.", "灯管很亮。"):
        assert verdicts(answer, LOST) == verdicts(answer, "")


def test_a_code_may_stand_in_the_name_of_the_document() -> None:
    question = "How much water does the tank of the HX-400 hold?"
    answer = "The tank of the HX-400 does hold 60 litres of water."
    text = "The tank has a volume of 60 litres of water. It is cleaned monthly."
    for name, verdict in (("HX-400 manual.pdf", "attributed"), ("HX-500.pdf", "unsupported")):
        passages = [Passage("doc_01", Hit(text=text, rank=1, file_name=name), text)]
        found = verify_answer(answer, passages, question=question)
        assert [one.verdict for one in found.groundedness.statements] == [verdict], name


def test_a_repaired_answer_is_judged_by_the_same_question() -> None:
    question, answer = RIGHT["a cost"]
    writer = AnswerWriter(PASSAGES, question=question)
    writer.feed("Lorries park for 12 yuan.")
    writer.finish()
    repaired = writer.repaired(answer)
    assert repaired is not None and repaired.outcome == "answered"


@pytest.mark.parametrize("question", ["", "?", "什么？", "the of is", "\0" * 9, "word " * 4_000])
def test_any_question_is_taken(question: str) -> None:
    assert verdicts("Lorries park for 12 yuan.", question) == [("unsupported", "missing")]


YES_NO = [
    ("Are drones allowed in the glass house?", "No, drones are not allowed in the glass house.", 1),
    ("Are drones allowed in the glass house?", "Yes, drones are allowed in the glass house.", 0),
    ("温室里可以用无人机吗？", "不，温室里不可以用无人机。", 1),
    ("温室里可以用无人机吗？", "是的，温室里可以用无人机。", 0),
    ("Are cats allowed in the kitchen?", "Yes, cats are allowed in the kitchen.", 0),
    ("Are lorries allowed in the yard?", "Yes, lorries are allowed in the yard.", 0),
]


@pytest.mark.parametrize(("question", "answer", "is_held"), YES_NO)
def test_a_yes_or_no_is_held_by_the_sentence_that_speaks_of_it(
    question: str, answer: str, is_held: int
) -> None:
    passages = make_passages(
        "Gas burners are allowed in the kitchen of the house only. Drones are never allowed"
        " under a glass roof.",
        "温室里不可以吸烟。馆内任何地方都不可以用无人机。",
    )
    (told,) = verify_answer(answer, passages, question=question).groundedness.statements
    assert told.holds == bool(is_held), told


QUOTED = [
    ("The cost for losing the key badge of an event room is 60 yuan.", "cited"),
    # Said, but not by what is quoted.
    ("The cost for losing the key badge of an event room is booked at the desk.", "unsupported"),
    # Said by nobody: the quote in other words.
    ("The cost for losing the key badge of an event room is sixty bucks.", "cited"),
]


@pytest.mark.parametrize(("answer", "verdict"), QUOTED)
def test_a_quote_holds_what_an_answer_adds_to_the_question(answer: str, verdict: str) -> None:
    quote = "Whoever loses the key badge of an event room pays 60 yuan for a new one."
    tag = f'{answer[:-1]}<cite doc_id="doc_01" quote="{quote}"></cite>.'
    assert [one for one, _ in verdicts(tag, LOST)] == [verdict]

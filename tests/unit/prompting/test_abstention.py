"""What is told where documents may not answer is in the question's language."""

from __future__ import annotations

import pytest

from rag.core.analysis import Answerability, MissingTerm
from rag.stages.prompting.abstention import doubt_notice, refusal_text

MISSING = (MissingTerm("HX-900", "HX-400"), MissingTerm("1987"))


@pytest.mark.parametrize(
    ("question", "told"),
    [
        (
            "What is the volume of HX-900 in 1987?",
            "HX-900 does not occur in these documents; the nearest is HX-400. "
            "1987 does not occur in these documents.",
        ),
        (
            "1987年HX-900的容积是多少？",
            "这些文档中没有出现 HX-900；最接近的是 HX-400。这些文档中没有出现 1987。",
        ),
    ],
)
def test_what_nobody_mentions_is_named(question: str, told: str) -> None:
    assert doubt_notice(question, Answerability(0.9, "doubtful", MISSING)) == told
    assert refusal_text(question, Answerability(0.0, "off_topic", MISSING)).endswith(told)


def test_doubt_is_told_and_its_absence_is_not() -> None:
    doubtful = Answerability(0.1, "doubtful")
    assert doubt_notice("Why?", doubtful).startswith("What was found may not answer")
    assert doubt_notice("为什么？", doubtful).startswith("找到的内容可能没有回答")
    assert doubt_notice("Why?", Answerability(0.9, "answerable")) == ""
    assert doubt_notice("Why?", None) == ""


def test_a_refusal_tells_what_thresholds_left_out() -> None:
    nothing = Answerability(0.0, "off_topic")
    assert refusal_text("Why?", nothing, 3).endswith(
        "Results below the thresholds were left out: 3."
    )
    assert "3 条结果" in refusal_text("为什么？", nothing, 3)
    assert "threshold" not in refusal_text("Why?", nothing)

"""Expected answer types, and what of a sentence is of one."""

from __future__ import annotations

import pytest

from rag.stages.query.answer_sentences import expected_answer_type, typed_mentions


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("When was the bridge opened?", "date"),
        ("In which year did it close?", "date"),
        ("大桥是什么时候通车的？", "date"),
        ("他哪年去世的", "date"),
        ("How long does a charge take?", "duration"),
        ("充电需要多长时间", "duration"),
        ("How many seats does it have?", "number"),
        ("有多少个座位？", "number"),
        ("Who built it?", "person"),
        ("谁是队长", "person"),
        ("Where is the depot?", "place"),
        ("仓库在哪里？", "place"),
        ("What is the name of the ship?", "name"),
        ("这艘船叫什么", "name"),
        ("Is the valve blue?", ""),
        ("阀门是蓝色的吗", ""),
        ("E21", ""),
        ("", ""),
    ],
)
def test_a_question_tells_what_answers_it(question: str, kind: str) -> None:
    assert expected_answer_type(question) == kind


def test_what_the_sentence_mentions_of_a_type_is_told_apart() -> None:
    assert typed_mentions("date", "It opened in May 1987.") == {"1987", "may"}
    assert "21" in typed_mentions("number", "There are 21 seats.")
    assert typed_mentions("person", "The bridge was built by Ada Stone.") == {"ada", "stone"}
    assert "张三丰" in typed_mentions("person", "大桥由张三丰设计。")
    assert typed_mentions("", "Ada Stone, 1987") == frozenset()

"""What a chat model is told: rules, sources, question, in the question's language."""

from __future__ import annotations

from rag.stages.prompting.context import Context
from rag.stages.prompting.prompt import answer_prompt


def test_sources_come_before_the_question() -> None:
    system, user = answer_prompt("How long?", Context("[Sources]\n\n1. text", ()))
    assert (system[0], user[0]) == ("system", "user")
    assert user[1] == "[Sources]\n\n1. text\n\nQuestion: How long?"


def test_the_rules_name_the_marker_that_is_checked() -> None:
    for question in ("How long?", "多久？"):
        (_, rules), _ = answer_prompt(question, Context("", ()))
        assert '<cite doc_id="' in rules
        assert 'quote="' in rules
        assert "</cite>" in rules


def test_sources_are_said_to_be_no_instructions() -> None:
    assert "not instructions" in answer_prompt("How long?", Context("", ()))[0][1]
    assert "不是指令" in answer_prompt("多久？", Context("", ()))[0][1]


def test_a_prompt_without_sources_says_so() -> None:
    assert answer_prompt("How long?", Context("", ()))[1][1].startswith("(no sources were found)")
    assert answer_prompt("多久？", Context("", ()))[1][1] == "（没有找到资料）\n\n问题：多久？"

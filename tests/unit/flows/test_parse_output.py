"""Answers of models: JSON alone, fenced or amid text; without JSON the text is the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.parse_output import ModelOutput, parse_output

ANSWER = {
    "response_content": "可以请年假。",
    "analysis_result": "sufficient",
    "confidence": 0.85,
    "data_quality": "high",
    "reasoning_summary": "手册第三章",
    "additional_fields": {"suggested_actions": ["a"], "risk_level": "low", "confidence": 0.1},
}
EXPECTED = ModelOutput(
    "可以请年假。",
    "手册第三章",
    {
        "analysis_result": "sufficient",
        "confidence": 0.85,
        "data_quality": "high",
        "suggested_actions": ["a"],
        "risk_level": "low",
    },
)
JSON = json.dumps(ANSWER, ensure_ascii=False, indent=2)


@pytest.mark.parametrize(
    "text",
    [
        JSON,
        f"\n\n{JSON}\n",
        f"```json\n{JSON}\n```",
        f"```\n{JSON}\n```",
        f"```json\n{JSON}",
        f"分析如下：\n```json\n{JSON}\n```\n以上。",
        f"Here it is: {JSON} Done {{}}.",
        f'Given {{x}} and {{"a": 1}}: {JSON}',
        f"{{oops {JSON}",
    ],
)
def test_the_object_is_found_wherever_it_stands(text: str) -> None:
    assert parse_output(text) == EXPECTED


@pytest.mark.parametrize(
    "text",
    [
        '{"verdict": "bad", "why": "a longer draft"} No: {"verdict": "good"}',
        '```json\n{"verdict": "bad"}\n```\nOn second thought:\n```json\n{"verdict": "good"}\n```',
        '<think>{"verdict": "bad", "why": "…"}</think>\n```json\n{"verdict": "good"}\n```',
    ],
)
def test_the_last_object_counts(text: str) -> None:
    assert parse_output(text).variables == {"verdict": "good"}


@pytest.mark.parametrize(
    "text", ["直接回答。", "", "[1, 2]", '{"a": }', '"text"', '{"a": NaN}', "{}x{", "{" * 5000]
)
def test_without_an_object_the_text_is_the_answer(text: str) -> None:
    assert parse_output(text) == ModelOutput(text.strip(), is_parsed=False)


def test_an_empty_object_alone_says_nothing() -> None:
    assert parse_output("{}") == ModelOutput("", "", {})


def test_fields_of_another_shape_are_kept() -> None:
    found = parse_output('{"response_content": ["a"], "additional_fields": "none", "x": null}')
    assert found == ModelOutput('["a"]', "", {"additional_fields": "none", "x": None})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    answer=st.dictionaries(st.text(min_size=1, max_size=6), VALUES, min_size=1, max_size=4),
    around=st.text(alphabet='ab中 \n`。,"', max_size=20),
)
def test_any_object_amid_any_text_is_read(answer: dict[str, Any], around: str) -> None:
    answer.pop("additional_fields", None)
    found = parse_output(around + json.dumps(answer) + around)
    readers = ("response_content", "reasoning_summary")
    assert found.variables == {key: value for key, value in answer.items() if key not in readers}


@given(st.text(alphabet='{}[]":,a0 \n`', max_size=80))
def test_any_text_gives_an_output(text: str) -> None:
    assert isinstance(parse_output(text).response_content, str)

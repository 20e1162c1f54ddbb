"""Bodies of OpenAI's protocol: whatever is sent is either asked or refused in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agents.api.openai.schemas import ChatCompletionBody
from rag.core.errors import InvalidInputError

TEXTS = st.text(max_size=8)
PARTS = st.fixed_dictionaries({"type": st.sampled_from(["text", "image_url"]), "text": TEXTS})
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
            "content": st.none() | TEXTS | st.lists(PARTS, max_size=3),
        }
    ),
    min_size=1,
    max_size=6,
)


def body(messages: Any, **more: Any) -> ChatCompletionBody:
    return ChatCompletionBody.model_validate({"model": "x", "messages": messages, **more})


@given(MESSAGES)
def test_the_question_is_the_last_words_of_the_user(messages: list[dict[str, Any]]) -> None:
    try:
        asked = body(messages).asked()
    except InvalidInputError as error:
        assert str(error) and error.params["param"].startswith("messages")
        return
    assert asked.turns[-1]["role"] == messages[-1]["role"] == "user"
    assert all(turn["content"].strip() for turn in asked.turns)
    assert {turn["role"] for turn in asked.turns} <= {"user", "assistant"}
    n_said = sum(message["role"] in ("system", "developer") for message in messages)
    assert bool(asked.instructions) <= bool(n_said)


def test_system_messages_are_kept_apart_wherever_they_stand() -> None:
    messages = [
        {"role": "system", "content": "A"},
        {"role": "user", "content": "1", "name": "eve"},
        {"role": "assistant", "content": [{"type": "refusal", "text": "no"}], "tool_calls": None},
        {"role": "developer", "content": "B"},
        {"role": "user", "content": [{"type": "text", "text": "2"}, {"type": "text", "text": "3"}]},
    ]
    asked = body(messages, max_tokens=50, max_completion_tokens=60).asked()
    assert asked.instructions == "A\n\nB" and asked.max_tokens == 60
    assert [turn["content"] for turn in asked.turns] == ["1", "no", "2\n3"]


def test_what_was_answered_by_calls_of_tools_is_refused() -> None:
    calls = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    with pytest.raises(InvalidInputError, match="tools"):
        body([calls, {"role": "user", "content": "x"}]).asked()


@pytest.mark.parametrize(
    "more",
    [
        {"temperature": 2.1},
        {"temperature": "warm"},
        {"max_tokens": 0},
        {"stop": ""},
        {"stop": ["x" * 201]},
        {"stream": "maybe"},
        {"citable": {"stores": [""]}},
        {"citable": {"nonsense": 1}},
        {"model": ""},
    ],
)
def test_values_out_of_range_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        body([{"role": "user", "content": "x"}], **more)


def test_nulls_are_what_was_left_out() -> None:
    nulls = dict.fromkeys(("stream", "temperature", "max_tokens", "stop", "stream_options"))
    found = body([{"role": "user", "content": "x"}], **nulls)
    assert found.stops == [] and found.asked().temperature is None
    assert body([{"role": "user", "content": "x"}], stop="a").stops == ["a"]

"""Chat bodies of OpenAI-compatible servers, and thinking that must not reach the reader."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import InvalidInputError
from rag.core.ports import ChatRequest
from rag.core.types import Message
from rag.providers.openai_compatible.messages import (
    ChatDelta,
    ReasoningFilter,
    read_delta,
    request_body,
)


def body_of(defaults: dict[str, Any], options: dict[str, Any], **renamed: str | None) -> Any:
    request = ChatRequest([Message("user", "?")], max_tokens=50, options=options)
    return request_body(request, defaults, renamed)


def test_a_plain_request_has_temperature_and_max_tokens() -> None:
    assert body_of({}, {}) == {"temperature": 0.2, "max_tokens": 50}


def test_options_lie_over_defaults_and_extra_body_over_all() -> None:
    defaults = {"thinking": {"type": "enabled"}, "top_p": 0.5}
    options = {
        "thinking": {"type": "disabled"},
        "reasoning_effort": "low",
        "extra_body": {"enable_thinking": False, "top_p": 0.9},
    }
    assert body_of(defaults, options) == {
        "temperature": 0.2,
        "max_tokens": 50,
        "thinking": {"type": "disabled"},
        "reasoning_effort": "low",
        "enable_thinking": False,
        "top_p": 0.9,
    }


def test_none_leaves_a_field_out() -> None:
    assert body_of({"top_p": 0.5}, {"temperature": None, "top_p": None}) == {"max_tokens": 50}


def test_the_two_limits_are_never_sent_together() -> None:
    assert body_of({}, {"max_completion_tokens": 9})["max_completion_tokens"] == 9
    assert "max_tokens" not in body_of({}, {"max_completion_tokens": 9})


def test_fields_are_renamed_or_left_out_for_a_server() -> None:
    found = body_of({}, {}, max_tokens="max_completion_tokens", temperature=None)
    assert found == {"max_completion_tokens": 50}


@pytest.mark.parametrize("name", ["model", "messages", "stream", "stream_options", "n"])
def test_options_cannot_change_what_is_asked(name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"“{name}” cannot be set"):
        body_of({}, {name: 1})
    with pytest.raises(InvalidInputError, match=f"“{name}” cannot be set"):
        body_of({"extra_body": {name: 1}}, {})


def test_a_message_and_a_delta_are_read_alike() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 7}
    for key in ("message", "delta"):
        choice = {key: {"content": "Hi", "reasoning_content": "hm"}, "finish_reason": "stop"}
        found = read_delta({"choices": [choice], "usage": usage})
        assert found == ChatDelta("Hi", "", "stop", 5, 7)


def test_a_list_of_parts_gives_its_text_and_not_its_thinking() -> None:
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "Two "},
        {"type": "text", "text": "years."},
    ]
    assert read_delta({"choices": [{"message": {"content": content}}]}).text == "Two years."


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": None, "usage": None}])
def test_a_body_may_say_nothing(body: dict[str, Any]) -> None:
    assert read_delta(body) == ChatDelta()


@pytest.mark.parametrize(
    "body",
    [
        {"choices": "x"},
        {"choices": ["x"]},
        {"choices": [{"message": "x"}]},
        {"choices": [{"message": {"content": 5}}]},
        {"usage": 5},
    ],
)
def test_a_body_of_another_kind_is_an_error(body: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="of another kind"):
        read_delta(body)


def test_odd_token_counts_count_as_unknown() -> None:
    found = read_delta({"usage": {"prompt_tokens": "7", "completion_tokens": True}})
    assert (found.input_tokens, found.output_tokens) == (None, None)


def filtered(pieces: list[str], *, is_thinking: bool = False) -> str:
    thoughts = ReasoningFilter(is_thinking=is_thinking)
    return "".join([thoughts.feed(piece) for piece in pieces]) + thoughts.end()


def cuts(text: str) -> st.SearchStrategy[list[str]]:
    places = st.lists(st.integers(0, len(text)), max_size=8).map(sorted)
    return places.map(
        lambda at: [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]
    )


@given(cuts("\n<think>Is it <b>two</b>? </thin yes</think>\n\nTwo years [1]."))
def test_thinking_is_dropped_however_it_is_cut(pieces: list[str]) -> None:
    assert filtered(pieces) == "Two years [1]."


@given(cuts("Is it two? Yes.</think>Two years [1]."))
def test_thinking_opened_by_the_prompt_is_dropped(pieces: list[str]) -> None:
    assert filtered(pieces, is_thinking=True) == "Two years [1]."


@given(cuts("  The tag <think> opens, </think> closes."))
def test_text_about_the_tag_stays(pieces: list[str]) -> None:
    assert filtered(pieces) == "  The tag <think> opens, </think> closes."


@given(st.lists(st.text(st.sampled_from("<think/> ab"), max_size=6), max_size=8))
def test_what_does_not_begin_with_the_tag_passes_whole(pieces: list[str]) -> None:
    text = "".join(pieces)
    if not text.lstrip().startswith("<think>"):
        assert filtered(pieces) == text


def test_thinking_without_an_end_is_no_answer() -> None:
    assert filtered(["<think>", "on and on"]) == ""


def test_a_beginning_that_is_no_tag_is_not_lost() -> None:
    assert filtered(["<thi"]) == "<thi"
    assert filtered(["<", "b>bold</b>"]) == "<b>bold</b>"


def test_text_flows_at_once_after_the_first_letter() -> None:
    thoughts = ReasoningFilter()
    assert thoughts.feed("T") == "T"
    assert thoughts.feed("wo <think> ") == "wo <think> "

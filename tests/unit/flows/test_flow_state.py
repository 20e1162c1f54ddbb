"""The state of a flow: merging rules, what is stored of it, what names in it stand for."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.state import (
    EMPTY,
    FIELDS,
    REDUCERS,
    Replace,
    append_lists,
    keep_last,
    merge_dicts,
    merge_query_context,
    merge_results,
    pack_update,
    to_storable,
    unpack_update,
)
from agents.flows.definition.definition import FlowDefinition
from agents.flows.definition.state import (
    MAX_MESSAGE,
    condition_values,
    initial_state,
    prompt_values,
    source_values,
    state_fields,
    user_query,
)
from rag.core.errors import ConfigurationError, InvalidInputError, UnknownNameError

FLOW = FlowDefinition.model_validate(
    {
        "name": "x",
        "nodes": [{"name": "a", "type": "t"}],
        "edges": [],
        "entry_node": "a",
        "inputs": {"channel": "where it was asked"},
    }
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=())), inner)
    ),
)


def test_the_state_has_every_field_of_the_description() -> None:
    assert set(FIELDS) == {
        "current_message",
        "history_messages",
        "flow_msgs",
        "session_id",
        "intent",
        "confidence",
        "need_clarification",
        "token_id",
        "trace_id",
        "prompt_vars",
        "edges_var",
        "rag_results",
        "query_context",
        "recalled_memories",
    }
    assert REDUCERS.keys() == set(FIELDS)
    assert EMPTY.keys() <= set(FIELDS)
    assert json.loads(json.dumps(EMPTY)) == EMPTY


@pytest.mark.parametrize(
    ("reducer", "old", "new", "result"),
    [
        (keep_last, 1, 2, 2),
        (keep_last, 1, Replace(3), 3),
        (append_lists, None, [1], [1]),
        (append_lists, [1], [2], [1, 2]),
        (append_lists, [1], None, [1]),
        (append_lists, [1], Replace([3]), [3]),
        (merge_dicts, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        (merge_dicts, {"a": 1}, {"a": 2}, {"a": 2}),
        (merge_dicts, {"a": 1}, Replace({"b": 1}), {"b": 1}),
        (merge_dicts, {"a": 1}, Replace(None), {}),
        (merge_results, {"s": [1]}, {"s": [2], "t": [3]}, {"s": [1, 2], "t": [3]}),
        (merge_results, {"s": [1]}, {"s": {"status": "ok"}}, {"s": {"status": "ok"}}),
        (merge_results, {"s": [1]}, Replace({"t": [1]}), {"t": [1]}),
        (
            merge_query_context,
            {"query_text": "a", "nodes": {"n": {"x": 1}}},
            {"query_text": "b", "nodes": {"m": {"x": 2}}},
            {"query_text": "b", "nodes": {"n": {"x": 1}, "m": {"x": 2}}},
        ),
        (merge_query_context, None, {"query_text": "b"}, {"query_text": "b"}),
        (merge_query_context, {"a": 1}, Replace({}), {}),
    ],
)
def test_updates_are_merged_by_rule(reducer: Any, old: Any, new: Any, result: Any) -> None:
    assert reducer(old, new) == result


@given(
    a=st.dictionaries(st.text(), st.lists(st.integers())),
    b=st.dictionaries(st.text(), st.lists(st.integers())),
)
def test_two_branches_lose_no_result_of_each_other(
    a: dict[str, list[int]], b: dict[str, list[int]]
) -> None:
    both = merge_results(merge_results({}, a), b)
    assert both.keys() == a.keys() | b.keys()
    assert all(len(both[name]) == len(a.get(name, [])) + len(b.get(name, [])) for name in both)


def texts_in(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for one in pair for text in texts_in(one)]
    if isinstance(value, list):
        return [text for one in value for text in texts_in(one)]
    return [value] if isinstance(value, str) else []


@given(value=values)
def test_whatever_a_node_returns_can_be_stored_and_read_back(value: Any) -> None:
    update = to_storable({"edges_var": {"x": value}, "rag_results": Replace({"y": value})})
    text = json.dumps(pack_update(update), allow_nan=False)
    assert not any("\0" in one for one in texts_in(json.loads(text)))
    json.dumps(pack_update(update), ensure_ascii=False).encode()
    assert unpack_update(json.loads(text)) == update


def test_numbers_that_are_no_json_become_nothing() -> None:
    assert to_storable({"x": [math.nan, math.inf, {"y": -math.inf}, 1.5]}) == {
        "x": [None, None, {"y": None}, 1.5]
    }
    assert to_storable({"x": "a\0b\ud800"}) == {"x": "a\ufffdb\ufffd"}


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", [object()]])
def test_what_is_no_json_is_a_fault_of_the_node(value: object) -> None:
    with pytest.raises(ConfigurationError, match="can hold only JSON"):
        to_storable({"edges_var": value})


def test_a_run_starts_with_its_message_and_what_is_given() -> None:
    state = initial_state(
        FLOW,
        "年假？",
        {
            "channel": "web",
            "session_id": "s",
            "prompt_vars": {"a": 1},
            "history_messages": [{"role": "user", "content": "hi"}],
        },
    )
    assert state["current_message"] == {"role": "user", "content": "年假？"}
    assert state["prompt_vars"] == {"a": 1, "channel": "web"}
    assert (state["session_id"], len(state["history_messages"])) == ("s", 1)
    assert "token_id" not in state
    assert initial_state(FLOW, "x")["prompt_vars"] == {"channel": None}
    state["edges_var"]["x"] = 1
    assert EMPTY["edges_var"] == {}


@pytest.mark.parametrize(
    ("message", "given_", "error", "text"),
    [
        ("  ", {}, InvalidInputError, "The message is empty"),
        ("x" * (MAX_MESSAGE + 1), {}, InvalidInputError, "At most 100000"),
        ("x", {"chanel": 1}, UnknownNameError, "“chanel”. Known: channel, confidence"),
        ("x", {"current_message": {}}, UnknownNameError, "current_message"),
        ("x", {"edges_var": []}, InvalidInputError, "“edges_var” is no object"),
        ("x", {"history_messages": "hi"}, InvalidInputError, "no list of messages"),
        (
            "x",
            {"history_messages": [{"role": "robot", "content": ""}]},
            InvalidInputError,
            "system, user, assistant",
        ),
        ("x", {"flow_msgs": [{"role": "user"}]}, InvalidInputError, "no list of messages"),
        ("x", {"token_id": 5}, InvalidInputError, "“token_id” is no text"),
    ],
)
def test_a_wrong_start_is_refused(
    message: str, given_: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        initial_state(FLOW, message, given_)


STATE = {
    "current_message": {"role": "user", "content": "the question"},
    "token_id": "me",
    "intent": None,
    "confidence": 0.1,
    "prompt_vars": {"who": "prompt", "user_id": 1},
    "edges_var": {
        "token_id": "somebody else",
        "user_query": "other",
        "confidence": 0.9,
        "who": "model",
        "user_id": 2,
    },
}


def test_conditions_see_what_models_said_but_not_who_they_claim_to_be() -> None:
    found = condition_values(STATE)
    assert (found["confidence"], found["token_id"], found["who"]) == (0.9, "me", "model")
    assert "intent" not in found
    assert "channel" not in condition_values({"prompt_vars": {"channel": None}})


def test_queries_of_sources_trust_models_least() -> None:
    found = source_values(STATE)
    assert (found["token_id"], found["user_query"], found["user_id"]) == ("me", "the question", 1)
    assert (found["who"], found["confidence"]) == ("prompt", 0.1)


def test_prompts_see_the_question_and_every_variable() -> None:
    found = prompt_values(STATE)
    assert (found["user_query"], found["who"], found["token_id"]) == (
        "the question",
        "model",
        "me",
    )
    assert user_query({}) == ""


def test_variables_of_the_right_type_set_fields_too() -> None:
    assert state_fields(
        {"intent": "qa", "confidence": 0.5, "need_clarification": True, "x": 1}
    ) == {
        "intent": "qa",
        "confidence": 0.5,
        "need_clarification": True,
    }
    assert state_fields({"intent": 1, "confidence": "high", "need_clarification": "no"}) == {}
    assert state_fields({"confidence": True}) == {}


def test_what_refers_to_itself_or_has_no_number_for_a_name_is_refused() -> None:
    circle: list[object] = []
    circle.append(circle)
    for value in ({"x": circle}, {"x": {math.nan: 1}}):
        with pytest.raises(ConfigurationError, match="can hold only JSON"):
            to_storable(value)

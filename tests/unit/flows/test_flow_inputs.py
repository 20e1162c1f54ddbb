"""Inputs of flows: types, defaults, what is required, choices, and what is told of a wrong one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.flows.definition.definition import FlowDefinition
from agents.flows.definition.inputs import FlowInput, input_schema
from agents.flows.definition.state import initial_state
from agents.flows.versions.dry_run import run_cases
from rag.core.errors import InvalidInputError

INPUTS: dict[str, Any] = {
    "order": {"type": "integer", "required": True, "description": "the number of the order"},
    "region": {"type": "text", "choices": ["north", "south"], "default": "north"},
    "files": {"type": "list"},
    "note": "anything at all",
}


def flow(inputs: Any = None) -> FlowDefinition:
    return FlowDefinition.model_validate(
        {
            "name": "desk",
            "nodes": [{"name": "a", "type": "agent"}],
            "edges": [],
            "entry_node": "a",
            "inputs": INPUTS if inputs is None else inputs,
        }
    )


def test_defaults_are_filled_in_and_what_nobody_gave_is_none() -> None:
    state = initial_state(flow(), "hello", {"order": 17, "note": {"any": 1}})
    assert state["prompt_vars"] == {
        "order": 17,
        "region": "north",
        "files": None,
        "note": {"any": 1},
    }


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "needs the input “order”"),
        ({"order": None}, "needs the input “order”"),
        ({"order": ""}, "“order” must be a whole number"),
        ({"order": "17"}, "“order” must be a whole number"),
        ({"order": True}, "“order” must be a whole number"),
        ({"order": 1, "region": "east"}, "“region” must be one of north, south"),
        ({"order": 1, "files": "a.pdf"}, "“files” must be a list"),
    ],
)
def test_a_wrong_input_is_refused_by_name(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        initial_state(flow(), "hello", given)


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "date"},
        {"type": "integer", "default": "x"},
        {"choices": ["a"], "default": "b"},
        {"type": "integer", "choices": ["a"]},
        {"required": True, "default": "x"},
        {"typ": "text"},
        {"choices": []},
    ],
)
def test_a_wrong_definition_is_no_flow(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="inputs"):
        flow({"a": wrong})


def test_forms_and_programs_are_told_the_same() -> None:
    schema = input_schema(flow().inputs)
    assert schema["required"] == ["order"] and schema["additionalProperties"] is False
    assert schema["properties"]["region"] == {
        "type": "string",
        "enum": ["north", "south"],
        "default": "north",
    }
    assert schema["properties"]["note"] == {"description": "anything at all"}
    assert json.dumps(schema) and FlowInput().required is False


@pytest.mark.parametrize(("n", "content"), [(201, "x"), (3, "x" * 70_000)])
def test_a_history_is_bounded(n: int, content: str) -> None:
    turns = [{"role": "user", "content": content}] * n
    with pytest.raises(InvalidInputError, match="“history_messages” has"):
        initial_state(flow({}), "hello", {"history_messages": turns})
    assert initial_state(flow({}), "hello", {"history_messages": turns[:2]})


def test_a_case_decides_each_visit_of_a_review(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(
        """
name: asks
max_steps: 9
nodes: [{name: review, type: human_review, config: {decisions: [again, send]}}]
edges:
  - {from: review, to: review, condition: review_decision == "again"}
  - {from: review, to: END, condition: default}
entry_node: review
""",
        encoding="utf-8",
    )
    (tmp_path / "cases.yaml").write_text(
        """
cases:
  - {name: twice, message: a, decisions: {review: [again, send]}, expect: {route: [review, review]}}
  - {name: waits, message: a, decisions: {review: [again]}, expect: {status: paused}}
""",
        encoding="utf-8",
    )
    assert [one.faults for one in run_cases(path=tmp_path)] == [(), ()]

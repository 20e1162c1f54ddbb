"""Flow files: plain YAML, each mistake with its line, column, field and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from agents.flows.definition.definition import Flow, parse_flow
from rag.core.errors import InvalidInputError, RAGError
from rag.stages.text.yaml_positions import MAX_CHARACTERS, YamlPosition, parse_yaml


class Talk(BaseModel):
    model_config = ConfigDict(extra="forbid")
    prompt: str
    temperature: float = 0.7


FLOW = """\
name: medical
version: "4.0"
description: 医疗问答
nodes:
  - name: 意图
    type: talk
    config:
      prompt: prompts/a.md
  - name: answer
    type: talk
    config: {prompt: b, temperature: 0.2}
edges:
  - from: 意图
    to: answer
    condition: intent == "qa" && confidence >= 0.8
  - {from: answer, to: END}
entry_node: 意图
"""


def read(text: str) -> Flow:
    return parse_flow(text, {"talk": Talk}, name="m.yaml")


def test_a_flow_is_read_with_its_configs_and_places() -> None:
    flow = read(FLOW)
    assert (flow.definition.name, flow.definition.version) == ("medical", "4.0")
    assert flow.configs == {
        "意图": Talk(prompt="prompts/a.md"),
        "answer": Talk(prompt="b", temperature=0.2),
    }
    first, last = flow.definition.edges
    assert (first.source, first.targets, first.condition) == (
        "意图",
        ["answer"],
        'intent == "qa" && confidence >= 0.8',
    )
    assert (last.targets, last.condition) == (["END"], "always")
    assert flow.located.place(("edges", 0, "condition")) == YamlPosition(15, 5)
    assert flow.located.place(("nodes", 1, "config", "prompt", "gone")) == YamlPosition(11, 14)
    assert (flow.definition.max_steps, flow.definition.timeout_s) == (50, 1800)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('version: "4.0"', "vers: 4", "line 2, column 1: vers: there is no such field"),
        (
            "    type: talk\n    config:\n",
            "    type: walk\n    config:\n",
            "line 6, column 5: unknown type “walk”; known: talk",
        ),
        (
            "prompt: prompts/a.md",
            "promt: x",
            "line 8, column 7: nodes.0.config.promt: there is no such field; known: prompt",
        ),
        (
            "temperature: 0.2",
            "temperature: hot",
            "line 11, column 25: nodes.1.config.temperature: Input should be a valid number",
        ),
        ("name: answer", "name: 意图", "line 9, column 5: the node “意图” is there twice"),
        ("name: answer", "name: END", "line 9, column 5: nodes.1.name: a name is letters"),
        ("name: answer", "name: a b", "a name is letters"),
        ("entry_node: 意图", "entry: x", "entry: there is no such field; known: .*entry_node"),
        (
            "to: answer\n",
            "too: answer\n",
            "edges.0.too: there is no such field; known: from, to, condition",
        ),
        ("name: medical", "name: ../x", "line 1, column 1: name: String should match"),
        ("version:", "name: twice\nversion:", "line 2, column 1: the key “name” is there twice"),
        ("description: 医疗问答", "max_steps: 0", "max_steps: Input should be greater"),
        (
            "description: 医疗问答",
            "inputs: {token_id: who}",
            "“token_id” is in every state already",
        ),
        ("description: 医疗问答", "inputs: {user_query: what}", "“user_query” is in every state"),
        ("description: 医疗问答", "inputs: {a b: what}", "“a b” is no name: letters, digits and _"),
        (
            "description: 医疗问答",
            "description: 4.0",
            "description: this is no text for YAML: write it in quotes",
        ),
    ],
)
def test_a_mistake_has_its_place(old: str, new: str, message: str) -> None:
    assert old in FLOW
    with pytest.raises(InvalidInputError, match=message) as raised:
        read(FLOW.replace(old, new, 1))
    assert str(raised.value).startswith("“m.yaml”, line ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "line 1, column 4"),
        ("name: [", "line 1, column 8"),
        ("a:\n  b: {c: 1\n\n", "line 2, column 6"),
        ('a: "b', "line 1, column"),
        ("a: &x [1]\nb: *x", "line 2, column 4: an alias"),
        ("a: !!python/object/apply:os.system ['true']", "the tag .* is not allowed"),
        ("a: !!python/object/apply:os.system true", "could not determine a constructor"),
        ("? [a]\n: b", "a key must be a text"),
        ("x: " + "[" * 60 + "]" * 60, "nested too deeply"),
        ("[" * 400_000, "maximum nesting depth|nested too deeply"),
        ("- " * 200_000, "line 1, column 81: it is nested too deeply"),
        ("a: \ud800", "half a character"),
        ("a: \0", "is no YAML"),
        ("a: 2026-13-45", "month must be in 1..12"),
        ("x" * (MAX_CHARACTERS + 1), "At most 500000"),
        ("a: 1\n--- \nb: 2", "line 2, column 1"),
    ],
)
def test_what_is_no_plain_yaml_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_yaml(text)


@pytest.mark.parametrize("text", ["", "- 1", "just text", "null"])
def test_what_is_no_flow_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="holds no flow"):
        read(text)


def test_values_are_json() -> None:
    data = parse_yaml("a: 2026-01-02\nb: !!binary aGk=\non: yes\n1: 1.5\nn: ~\n").data
    assert data == {"a": "2026-01-02", "b": "aGk=", "on": True, "1": 1.5, "n": None}


@given(st.text(max_size=60) | st.text(alphabet="ab:-[]{}&*!?|> \n'\"#", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_yaml(text)
    except RAGError:
        return


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet="ab中: -", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(alphabet="ab中", min_size=1, max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON)
def test_any_data_written_is_read_again(data: Any) -> None:
    import yaml

    assert parse_yaml(yaml.safe_dump(data, allow_unicode=True)).data == data

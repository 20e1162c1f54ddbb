"""Schema of the flow language: what it takes, and that a new kind of node is in it by itself."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict

from agents.core.source_configs import RagNodeConfig
from agents.flows.definition.check_graph import check_graph
from agents.flows.definition.definition import parse_flow
from agents.flows.definition.findings import FlowFindings
from agents.flows.definition.flow_schema import FlowVocabulary, flow_schema
from agents.flows.definition.node_configs import AgentNodeConfig
from rag.core.errors import InvalidInputError

FLOW = """\
name: desk
nodes:
  - {name: loud, type: shout, config: {volume: high}}
  - {name: find, type: rag, config: {data_sources: [{type: web, address: a, depends_on: []}]}}
  - {name: say, type: agent, config: {prompt: a.md, tools: [grade]}}
edges:
  - {from: loud, to: [find, say]}
  - {from: say, to: END}
entry_node: loud
inputs: {region: where, size: {type: integer}}
layout: {loud: [10, -20.5]}
"""


class Shout(BaseModel):
    """A node that somebody else has written."""

    model_config = ConfigDict(extra="forbid")
    volume: Literal["low", "high"]


NODES: dict[str, type[BaseModel]] = {"shout": Shout, "rag": RagNodeConfig, "agent": AgentNodeConfig}
WEB = {
    "properties": {"address": {"type": "string", "description": "Where."}},
    "required": ["address"],
}
SCHEMA = flow_schema(FlowVocabulary(NODES, {"shout": "Shouts"}, {"web": WEB}, ("grade",)))


def faults(text: str) -> list[str]:
    found = Draft202012Validator(SCHEMA).iter_errors(yaml.safe_load(text))
    return sorted("/".join(map(str, one.absolute_path)) for one in found)


def test_it_is_a_schema_and_takes_what_the_language_takes() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert faults(FLOW) == []


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("volume: high", "volume: shrill", "nodes/0/config/volume"),
        ("type: shout", "type: whisper", "nodes/0/type"),
        ("address: a, ", "", "nodes/1/config/data_sources/0"),
        ("prompt: a.md", "prompt: [a.md]", "nodes/2/config/prompt"),
        ("[10, -20.5]", "[10]", "layout/loud"),
        ("entry_node: loud", "start: loud", ""),
    ],
)
def test_what_the_language_refuses_is_refused(old: str, new: str, place: str) -> None:
    assert place in faults(FLOW.replace(old, new))


def test_a_node_type_is_there_with_its_label_and_its_options() -> None:
    node: dict[str, Any] = SCHEMA["$defs"]["NodeDefinition"]
    assert {"const": "shout", "title": "Shouts"} in node["properties"]["type"]["oneOf"]
    (then,) = [
        one["then"] for one in node["allOf"] if one["if"]["properties"]["type"]["const"] == "shout"
    ]
    assert then["properties"]["config"] == {"$ref": "#/$defs/Shout"}
    # Docstrings are for programmers.
    assert "description" not in SCHEMA["$defs"]["Shout"]


def test_marks_say_where_prompts_and_tools_are_named() -> None:
    agent = SCHEMA["$defs"]["AgentNodeConfig"]["properties"]
    assert agent["prompt"]["x-prompt"] is True
    assert agent["tools"]["items"]["anyOf"][0]["examples"] == ["grade"]


def test_a_layout_is_read_and_names_that_are_no_nodes_are_doubtful() -> None:
    flow = parse_flow(FLOW.replace("layout: {", "layout: {gone: [0, 0], "), NODES)
    assert flow.definition.layout["loud"] == (10, -20.5)
    found = FlowFindings(flow.located)
    check_graph(flow.definition, found)
    assert ("warning", 11) in [(one.level, one.line) for one in found.in_order()]
    with pytest.raises(InvalidInputError, match="line 11"):
        parse_flow(FLOW.replace("-20.5", "up"), NODES)

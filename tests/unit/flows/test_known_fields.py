"""A field that is none: the error lists those that there are, wherever it stands."""

from __future__ import annotations

import pytest

from agents.core.source_configs import RagNodeConfig
from agents.flows.definition.definition import FlowDefinition, parse_flow, schema_fields
from agents.flows.definition.node_configs import AgentNodeConfig, RagFilesConfig
from rag.core.errors import InvalidInputError

CONFIGS = {"agent": AgentNodeConfig, "rag": RagNodeConfig, "rag_files": RagFilesConfig}
FLOW = """\
name: x
nodes:
  - name: a
    type: agent
    config: {prompt: a.md, model: {provider: p, name: n, thinking: {type: auto}}}
  - name: f
    type: rag_files
    config: {fileSearchStoreName: s, inputMappings: {query: q}}
edges:
  - {from: a, to: f}
  - {from: f, to: END}
entry_node: a
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "known"),
    [
        (
            "name: x",
            "nam: x\nname: x",
            1,
            "known: name, version, description, nodes, edges, entry_node, inputs",
        ),
        ("    type: agent", "    typ: agent", 4, "type"),
        (
            "prompt: a.md,",
            "prompt: a.md, promt: b,",
            5,
            "known: prompt, model, tools, output_schema, context_tokens",
        ),
        (
            "name: n,",
            "name: n, temprature: 1,",
            5,
            "known: provider, name, temperature, max_tokens, thinking",
        ),
        ("{type: auto}", "{kind: auto}", 5, "known: type, budget_tokens"),
        ("{query: q}", "{file: q}", 8, "known: query, files, files2, files3"),
        ("to: END}", "to: END, when: x}", 11, "known: from, to, condition"),
    ],
)
def test_an_unknown_field_is_told_with_the_known_ones(
    old: str, new: str, line: int, known: str
) -> None:
    with pytest.raises(InvalidInputError) as raised:
        parse_flow(FLOW.replace(old, new, 1), CONFIGS)
    assert f"“flow.yaml”, line {line}," in str(raised.value)
    assert known in str(raised.value)


def test_where_no_one_model_is_nothing_is_known() -> None:
    assert schema_fields(FlowDefinition, ["nodes", 0])[:2] == ["name", "type"]
    assert schema_fields(AgentNodeConfig, ["tools", 0, "SourceToolConfig"])[0] == "type"
    assert schema_fields(AgentNodeConfig, ["nothing"]) == schema_fields(AgentNodeConfig, [])

"""Static checks: each fault has a flow that fails by it, at its line; a sound flow has none."""

from __future__ import annotations

import pytest

from agents.flows.checks import Surroundings, check_flow
from agents.flows.definition import read_flow
from agents.flows.finding import Finding
from agents.flows.node_configs import AgentNodeConfig, HumanReviewConfig
from agents.flows.source_configs import DataSourceConfig, RagNodeConfig
from rag.core.errors import ConfigurationError, UnknownNameError

CONFIGS = {"agent": AgentNodeConfig, "rag": RagNodeConfig, "human_review": HumanReviewConfig}
PROMPTS = {
    "intent.md": 'Answer {"intent": "qa|other", "confidence": 0.5}. {user_query}',
    "answer.md": "{rag_context} {user_query} {policy} Answer with analysis_result and 数据质量.",
}
FLOW = """\
name: policy
nodes:
  - {name: intent, type: agent, config: {prompt: intent.md}}
  - name: find
    type: rag
    config:
      data_sources: [{type: vector_store, name: docs, collection: handbook}]
      result_key: policy
  - name: answer
    type: agent
    config:
      prompt: answer.md
      model: {provider: doubao, name: seed}
      tools: [query_blood_pressure]
  - {name: review, type: human_review, config: {}}
edges:
  - {from: intent, to: find, condition: intent == "qa" && confidence >= 0.8}
  - {from: intent, to: END, condition: default}
  - {from: find, to: answer}
  - {from: answer, to: END, condition: analysis_result == "sufficient"}
  - {from: answer, to: review, condition: 数据质量 == "low" && analysis_result == "insufficient"}
  - {from: answer, to: END, condition: default}
  - {from: review, to: END, condition: review_decision == "approve"}
  - {from: review, to: answer, condition: default}
entry_node: intent
max_steps: 20
"""


def known_source(source: DataSourceConfig) -> None:
    if source.options.get("collection") != "handbook":
        raise UnknownNameError("store", str(source.options.get("collection")), ["handbook"])


def known_model(name: str) -> None:
    if name != "doubao:seed":
        raise ConfigurationError("No key for {name} is set.", hint="Set it.", name=name)


def known_tool(name: str) -> None:
    if name != "query_blood_pressure":
        raise UnknownNameError("tool", name, ["query_blood_pressure"])


SURROUNDINGS = Surroundings(known_source, known_model, known_tool)


def check(text: str) -> list[Finding]:
    return check_flow(read_flow(text, CONFIGS, prompts=PROMPTS), SURROUNDINGS)


def errors(text: str) -> list[tuple[int, str]]:
    return [(found.line, found.text) for found in check(text) if found.level == "error"]


def test_a_sound_flow_has_no_findings() -> None:
    assert check(FLOW) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("entry_node: intent", "entry_node: start", 25, "there is no node “start”; known: intent, find"),
        ("{from: find, to: answer}", "{from: find, to: anser}", 19, "there is no node “anser”"),
        ("{from: find, to: answer}", "{from: END, to: answer}", 19, "there is no node “END”"),
        ("{from: intent, to: find, condition: ", "{from: intent, to: answer, condition: ", 4, "no path leads to “find”"),
        ("  - {from: review, to: END, condition: review_decision == \"approve\"}\n  - {from: review, to: answer, condition: default}\n",
         "", 15, "no path leads from “review” to END"),
        ("max_steps: 20\n", "", 16, "the nodes answer, review form a cycle without a limit"),
        ("prompt: answer.md", "prompt: gone.md", 12, "there is no prompt “gone.md”; known: answer.md, intent.md"),
        ("result_key: policy", "result_key: other", 12, "the placeholder “{policy}”, which nothing fills"),
        ("analysis_result == \"sufficient\"", "verdict == \"sufficient\"", 20, "no node before it sets “verdict”"),
        ("intent == \"qa\"", "analysis_result == \"qa\"", 17, "no node before it sets “analysis_result”"),
        ("analysis_result == \"sufficient\"", "analysis_result = \"sufficient\"", 20, "cannot be read at character 17"),
        ("condition: analysis_result == \"sufficient\"", "condition: always", 21, "is never taken: an edge of “answer” before it"),
        ("condition: analysis_result == \"sufficient\"", "condition: default", 22, "“answer” has two default edges"),
        ("condition: analysis_result == \"sufficient\"", "condition: 数据质量 == \"low\" && analysis_result == \"insufficient\"",
         21, "an edge before it has the same condition"),
        ("collection: handbook", "collection: hand", 7, "Unknown store “hand”. Known: handbook."),
        ("name: seed", "name: other", 13, "No key for doubao:other is set. Set it."),
        ("query_blood_pressure", "query_x", 14, "Unknown tool “query_x”"),
    ],
)  # fmt: skip
def test_a_fault_is_found_where_it_is(old: str, new: str, line: int, message: str) -> None:
    assert old in FLOW
    found = errors(FLOW.replace(old, new, 1))
    assert [place for place, text in found if message in text][:1] == [line], found


def test_choices_without_a_last_resort_are_doubtful() -> None:
    (found,) = check(FLOW.replace("  - {from: intent, to: END, condition: default}\n", ""))
    assert (found.level, found.line) == ("warning", 17)
    assert "“intent” holds the run ends with an error" in found.text


def test_conditions_that_may_hold_together_are_doubtful() -> None:
    wider = FLOW.replace(
        '数据质量 == "low" && analysis_result == "insufficient"', '数据质量 == "low"'
    )
    (found,) = check(wider)
    assert (found.level, found.line) == ("warning", 21)
    assert "analysis_result = 'sufficient', 数据质量 = 'low'" in found.text


def test_parallel_targets_are_all_reached() -> None:
    both = FLOW.replace("{from: find, to: answer}", "{from: find, to: [answer, review]}")
    assert errors(both) == []
    assert errors(FLOW.replace("{from: find, to: answer}", "{from: find, to: [answer, gone]}")) == [
        (19, "there is no node “gone”; known: intent, find, answer, review")
    ]


def test_declared_inputs_may_be_asked_for() -> None:
    text = FLOW.replace('intent == "qa"', 'channel == "web"')
    assert len(errors(text)) == 1
    assert errors(text + "inputs: {channel: where the question was asked}\n") == []

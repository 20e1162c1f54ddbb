"""Static checks: each fault has a flow that fails by it, at its line; a sound flow has none."""

from __future__ import annotations

import time

import pytest

from agents.core.source_configs import DataSourceConfig, RagNodeConfig
from agents.flows.definition.check_graph import MAX_PAIRS
from agents.flows.definition.checks import FlowEnvironment, check_flow
from agents.flows.definition.definition import parse_flow
from agents.flows.definition.findings import FlowFinding
from agents.flows.definition.node_configs import AgentNodeConfig, HumanReviewConfig, RagFilesConfig
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


def known_files(config: RagFilesConfig) -> None:
    if config.fileSearchStoreName not in ("", "fileSearchStores/handbook"):
        raise UnknownNameError("store", config.fileSearchStoreName, ["fileSearchStores/handbook"])


def known_flow(own: str, name: str) -> None:
    if name != "refunds":
        raise UnknownNameError("flow", name, ["refunds"])


SURROUNDINGS = FlowEnvironment(
    known_source, known_model, known_tool, known_files, lambda _: None, known_flow
)


def check(text: str) -> list[FlowFinding]:
    return check_flow(parse_flow(text, CONFIGS, prompts=PROMPTS), SURROUNDINGS)


def errors(text: str) -> list[tuple[int, str]]:
    return [(found.line, found.text) for found in check(text) if found.level == "error"]


def test_a_sound_flow_has_no_findings() -> None:
    assert check(FLOW) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        (
            "entry_node: intent",
            "entry_node: start",
            25,
            "there is no node “start”; known: intent, find",
        ),
        ("{from: find, to: answer}", "{from: find, to: anser}", 19, "there is no node “anser”"),
        ("{from: find, to: answer}", "{from: END, to: answer}", 19, "there is no node “END”"),
        (
            "{from: intent, to: find, condition: ",
            "{from: intent, to: answer, condition: ",
            4,
            "no path leads to “find”",
        ),
        (
            '  - {from: review, to: END, condition: review_decision == "approve"}\n  - {from: review, to: answer, condition: default}\n',
            "",
            15,
            "no path leads from “review” to END",
        ),
        ("max_steps: 20\n", "", 16, "the nodes answer, review form a cycle without a limit"),
        (
            "prompt: answer.md",
            "prompt: gone.md",
            12,
            "there is no prompt “gone.md”; known: answer.md, intent.md",
        ),
        (
            "result_key: policy",
            "result_key: other",
            12,
            "the placeholder “{policy}”, which nothing fills",
        ),
        (
            'analysis_result == "sufficient"',
            'verdict == "sufficient"',
            20,
            "no node before it sets “verdict”",
        ),
        (
            'intent == "qa"',
            'analysis_result == "qa"',
            17,
            "no node before it sets “analysis_result”",
        ),
        (
            'analysis_result == "sufficient"',
            'analysis_result = "sufficient"',
            20,
            "cannot be read at character 17",
        ),
        (
            'condition: analysis_result == "sufficient"',
            "condition: always",
            21,
            "is never taken: an edge of “answer” before it",
        ),
        (
            'condition: analysis_result == "sufficient"',
            "condition: default",
            22,
            "“answer” has two default edges",
        ),
        (
            'condition: analysis_result == "sufficient"',
            'condition: 数据质量 == "low" && analysis_result == "insufficient"',
            21,
            "an edge before it has the same condition",
        ),
        ("collection: handbook", "collection: hand", 7, "Unknown store “hand”. Known: handbook."),
        ("name: seed", "name: other", 13, "No key for doubao:other is set. Set it."),
        ("query_blood_pressure", "query_x", 14, "Unknown tool “query_x”"),
    ],
)
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


FILES_FLOW = """\
name: files
inputs: {documents: files to read}
nodes:
  - {name: first, type: rag_files, config: {label: 手册, fileSearchStoreName: fileSearchStores/handbook}}
  - name: second
    type: rag_files
    config:
      inputMappings: {query: "{{手册.answer}} {{first.query}} {{user_input}}", files: "{{用户输入.documents}}"}
  - {name: rows, type: rag, config: {data_sources: [{type: database, name: r, query_template: "SELECT {token_id}, {first}"}]}}
  - {name: say, type: agent, config: {prompt: say.md}}
edges:
  - {from: first, to: second, condition: first.documentCount > 0}
  - {from: first, to: END, condition: default}
  - {from: second, to: rows}
  - {from: rows, to: say}
  - {from: say, to: END}
entry_node: first
"""


def check_files(text: str) -> list[tuple[int, str]]:
    flow = parse_flow(text, {**CONFIGS, "rag_files": RagFilesConfig}, prompts={"say.md": "{first}"})
    surroundings = FlowEnvironment(
        lambda _: None, known_model, known_tool, known_files, lambda _: None, known_flow
    )
    return [(one.line, one.text) for one in check_flow(flow, surroundings)]


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("Stores/handbook", "Stores/gone", 4, "Unknown store “fileSearchStores/gone”"),
        ("{{手册.answer}}", "{{手冊.answer}}", 8, "“手冊.answer” refers to no node before it"),
        ("{{first.query}}", "{{say.output}}", 8, "known: documents, first, start, 手册, 用户输入"),
        ("{{user_input}}", "{{nothing}}", 8, "“nothing” refers to no node"),
        ("{{用户输入.documents}}", "{{gone.documents}}", 8, "“gone.documents”"),
        ("{token_id}", "{user_id}", 9, "“r” has the placeholder “{user_id}”, which nothing fills"),
        ("first.documentCount", "second.documentCount", 12, "no node before it sets “second”"),
    ],
)
def test_what_files_and_sources_refer_to_must_be_there(
    old: str, new: str, line: int, message: str
) -> None:
    assert check_files(FILES_FLOW) == []
    ((place, text),) = check_files(FILES_FLOW.replace(old, new, 1))
    assert (place, message in text) == (line, True), text


def test_a_source_that_follows_another_may_name_its_results() -> None:
    sources = (
        "[{type: database, name: the-user, query_template: 'SELECT 1'}, {type: api, name: b, depends_on: the-user, "
        "params: {q: '{the_user__id} {user_query}'}, body: {ids: '{the_user__all__id}', n: 1}}], query_strategy: sequential"
    )
    text = f"name: x\nentry_node: f\nnodes: [{{name: f, type: rag, config: {{data_sources: {sources}}}}}]\nedges: []\n"
    assert [one for one in check_files(text) if "placeholder" in one[1]] == []
    ((_, told),) = [
        one
        for one in check_files(text.replace("{the_user__id}", "{other__id}"))
        if "placeholder" in one[1]
    ]
    assert "{other__id}" in told


def test_a_chinese_prompt_sets_what_it_names_amid_its_words() -> None:
    nodes = "[{name: a, type: agent, config: {prompt: a.md}}]"
    text = (
        f"name: x\nentry_node: a\nnodes: {nodes}\nedges:\n"
        "- {from: a, to: END, condition: 风险等级 == '高'}\n- {from: a, to: END, condition: default}\n"
    )
    for prompt, n_errors in (("请判断风险等级并输出", 0), ("请判断{风险等级}", 1), ("risk", 1)):
        flow = parse_flow(text.replace("{风险等级}", ""), CONFIGS, prompts={"a.md": prompt})
        found = [one.text for one in check_flow(flow, SURROUNDINGS) if one.level == "error"]
        assert len([one for one in found if "no node before it sets “风险等级”" in one]) == n_errors


def test_many_conditions_are_compared_within_bounds() -> None:
    def flow_of(*conditions: str) -> str:
        edges = "".join(f"  - {{from: intent, to: END, condition: {one}}}\n" for one in conditions)
        head = FLOW.split("edges:\n")[0].split("  - name: find")[0]
        last = "  - {from: intent, to: END, condition: default}\n"
        return f"{head}edges:\n{edges}{last}entry_node: intent\n"

    many = [f"confidence > {number} && confidence < {number}.5" for number in range(60)]
    started = time.process_time()
    found = check(flow_of(*many))
    assert time.process_time() - started < 5
    told = [one.text for one in found if "is not compared with all conditions" in one.text]
    assert told and len(told) == len(found) and f"more than {MAX_PAIRS} pairs" in told[0]
    # The same condition again is told once for each edge, however many there are.
    same = check(flow_of(*["confidence > 0.5"] * 200))
    assert [one.text for one in same if one.level == "error"] == [
        "is never taken: an edge before it has the same condition"
    ] * 199


def test_the_first_of_several_overlaps_is_told() -> None:
    wider = FLOW.replace(
        "  - {from: answer, to: END, condition: default}\n",
        "  - {from: answer, to: END, condition: analysis_result != ''}\n"
        "  - {from: answer, to: END, condition: default}\n",
    )
    (found,) = check(wider)
    assert (found.level, found.line) == ("warning", 22)
    assert 'together with “analysis_result == "sufficient"”' in found.text

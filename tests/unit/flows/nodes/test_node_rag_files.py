"""The node that asks files: what it may be told, what it asks, what it gives on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import ValidationError

from agents.core.state import Replace
from agents.flows.definition.node_configs import RagFilesConfig
from agents.flows.definition.state import initial_state, node_outputs, template_context
from agents.flows.nodes.rag_files import RagFilesNode
from rag.core.errors import CancelledError, ConfigurationError, ProviderError
from rag.core.rag_node import RAGNodeData
from tests.unit.flows.test_flow_state import FLOW
from tests.unit.node_world import NotedRun

STORE = {"fileSearchStoreName": "fileSearchStores/abc"}
FOUND = {
    "query": "年假？",
    "mode": "fileSearch",
    "documentCount": 2,
    "answer": "五天。",
    "documents": ["员工有五天年假。", "病假另算。"],
    "citations": [
        {"source": "手册.pdf", "chunk": "员工有五天年假。"},
        {"source": "附录.pdf", "chunk": "病假另算。"},
    ],
}


def ask(run: NotedRun, given: dict[str, Any] | None = None, **config: Any) -> dict[str, Any]:
    made = RagFilesConfig.model_validate(config)
    return asyncio.run(RagFilesNode().run(initial_state(FLOW, "年假？", given), made, run))


def test_documents_become_results_and_the_answer_a_turn() -> None:
    run = NotedRun(sources={"node": FOUND})
    update = ask(run, **STORE, label="手册")
    assert update["rag_results"] == {
        "node": [
            {"content": "员工有五天年假。", "metadata": {"source": "手册.pdf"}},
            {"content": "病假另算。", "metadata": {"source": "附录.pdf"}},
        ]
    }
    assert update["flow_msgs"] == [{"role": "assistant", "content": "五天。"}]
    assert update["prompt_vars"] == {"node": {"label": "手册", **FOUND}}
    context = update["query_context"]
    assert (context["query_text"], context["result_count"]) == ("年假？", 2)
    assert (context["data_sources"], context["errors"]) == (["fileSearchStores/abc"], {})
    assert context["nodes"]["node"]["counts"] == {"node": 2}
    ((kind, told),) = run.events
    assert (kind, told["counts"], told["result_key"]) == ("rag_results", {"node": 2}, "rag_results")
    (asked,) = run.files
    assert asked.data == {**STORE, "label": "手册", "inputMappings": {"query": "{{user_query}}"}}
    assert (asked.timeout_s, asked.node_id) == (600, "")


def test_an_answer_from_whole_files_names_them() -> None:
    found = {
        "query": "q",
        "mode": "multimodal",
        "documentCount": 1,
        "documents": ["It says so."],
        "answer": "It says so.",
        "citations": [{"source": "a.pdf", "chunk": ""}, {"source": "b.png", "chunk": ""}],
    }
    update = ask(
        NotedRun(sources={"node": found}),
        inputMappings={"files": "{{start.files}}"},
        fileMode="variable",
        result_key="from_files",
    )
    (result,) = update["from_files"]["node"]
    assert result == {"content": "It says so.", "metadata": {"source": "a.pdf, b.png"}}


def test_references_see_the_person_the_inputs_and_earlier_nodes() -> None:
    run = NotedRun(sources={"node": FOUND})
    run.past = {"draft": {"output": "a draft"}, "ask": {"label": "问答", "answer": "five"}}
    ask(run, {"channel": "web"}, **STORE)
    context = run.files[0].context
    assert list(context) == ["start", "draft", "ask", "_meta"]
    assert context["start"]["user_input"] == context["start"]["user_query"] == "年假？"
    assert context["start"]["channel"] == "web"
    assert context["_meta"]["nodeLabels"] == {"start": "用户输入", "ask": "问答"}


def test_outputs_are_the_last_of_each_node_in_the_order_they_ran() -> None:
    told = node_outputs(
        [
            ("a", {"edges_var": {"x": 1}, "flow_msgs": [{"role": "assistant", "content": "one"}]}),
            ("b", {"rag_results": Replace({"kb": [1]}), "policy": {"kb": [2]}}),
            ("a", {"edges_var": {"x": 2}, "prompt_vars": {"a": {"answer": "two"}, "z": 1}}),
        ]
    )
    assert told == {
        "b": {"rag_results": {"kb": [1]}, "policy": {"kb": [2]}},
        "a": {"x": 2, "answer": "two"},
    }
    assert list(told) == ["b", "a"]
    assert template_context({"prompt_vars": {"a": 1, "c": 2}}, told)["start"] == {
        "c": 2,
        "user_input": "",
        "user_query": "",
    }


def test_what_fails_ends_the_run_or_is_told() -> None:
    run = NotedRun(sources={"node": {"error": "the store is away"}})
    with pytest.raises(ProviderError, match="the store is away"):
        ask(run, **STORE)
    update = ask(run, **STORE, on_error="continue")
    assert update["flow_msgs"] == [] and update["rag_results"] == {"node": []}
    assert update["prompt_vars"]["node"]["documentCount"] == 0
    assert "the store is away" in update["query_context"]["errors"]["node"]
    # As a template too: whoever looks at the run reads it in another language.
    told = dict(run.events)["rag_results"]
    assert "the store is away" in str(told["faults"]["node"]["params"].values())


@pytest.mark.parametrize("error", [CancelledError("x"), ConfigurationError("no key")])
def test_what_no_flow_can_go_on_without_ends_it(error: Exception) -> None:
    class Run(NotedRun):
        async def ask_files(self, asked: Any) -> dict[str, Any]:
            raise error

    with pytest.raises(type(error)):
        ask(Run(), **STORE, on_error="continue")


def test_results_are_cut_to_the_budget_with_a_note() -> None:
    long = {**FOUND, "documents": ["x" * 90, "y" * 90], "citations": []}
    update = ask(NotedRun(sources={"node": long}), **STORE, max_tokens=150)
    assert len(update["rag_results"]["node"]) == 1
    assert update["query_context"]["notes"] == ["node: 1 of 2 results kept within 150 tokens."]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "needs a fileSearchStoreName, files in inputMappings, or a node_id"),
        ({"fileMode": "static"}, "static needs a fileSearchStoreName"),
        ({"fileMode": "variable", **STORE}, "variable needs files in inputMappings"),
        ({**STORE, "fileMode": "both"}, "'static' or 'variable'"),
        ({**STORE, "maxTokensPerChunk": 20}, "greater than or equal to 50"),
        ({**STORE, "maxOverlapTokens": 101}, "less than or equal to 100"),
        ({**STORE, "inputMappings": {"query": "{{a.b"}}, "is not closed"),
        ({**STORE, "inputMappings": {"files": "see {{a.b}}"}}, "one reference and nothing else"),
        ({**STORE, "inputMappings": {"file": "{{a.b}}"}}, "Extra inputs are not permitted"),
        ({**STORE, "result_key": "session_id"}, "holds something else"),
        ({**STORE, "store": "x"}, "Extra inputs are not permitted"),
    ],
)
def test_a_wrong_config_is_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RagFilesConfig.model_validate(config)


def test_a_builder_s_node_can_be_pasted_as_it_is() -> None:
    pasted = {
        "label": "RAG",
        "fileMode": "static",
        "files": [{"name": "a.pdf"}],
        "files2": [],
        "fileSearchStoreName": "fileSearchStores/abc",
        "fileSearchStoreId": "store-12345678-1",
        "maxTokensPerChunk": 300,
        "maxOverlapTokens": 30,
        "uploadStatus": "completed",
        "searchQuery": "last",
        "foundDocuments": ["x"],
        "inputMappings": {"query": "{{用户输入.user_input}}", "files": "{{用户输入.files}}"},
    }
    config = RagFilesConfig.model_validate(pasted)
    assert config.data == pasted
    assert RAGNodeData.from_wire(config.data).input_mappings.query == "{{用户输入.user_input}}"
    assert "query" not in RagFilesConfig(node_id="n1").data.get("inputMappings", {})

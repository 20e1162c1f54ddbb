"""Data sources as tools of a model: offered, called, refused, kept; beside tool plugins."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import ValidationError

from agents.flows.definition.node_configs import AgentNodeConfig
from agents.flows.definition.state import initial_state
from agents.flows.nodes.agent import AgentNode
from rag.core.errors import ConfigurationError, ProviderError
from tests.unit.flows.test_flow_state import FLOW
from tests.unit.node_world import NotedRun

HANDBOOK = {
    "type": "vector_store",
    "name": "search_handbook",
    "collection": "handbook",
    "top_k": 3,
    "description": "Finds passages of the handbook.",
    "timeout": 5,
    "cache_ttl": 60,
}
FOUND = [{"content": "five days", "score": 0.8, "metadata": {"source": "guide.pdf", "page": 4}}]


def call(query: Any, tool: str = "search_handbook") -> str:
    return json.dumps(
        {"tool": tool, "arguments": query if isinstance(query, dict) else {"query": query}}
    )


def ask(run: NotedRun, *tools: Any) -> dict[str, Any]:
    run.prompts = {"p.md": "Answer the question."}
    config = AgentNodeConfig.model_validate({"prompt": "p.md", "tools": list(tools)})
    return asyncio.run(
        AgentNode().run(initial_state(FLOW, "年假？", {"token_id": "me"}), config, run)
    )


def test_a_source_is_offered_called_and_its_results_are_kept() -> None:
    run = NotedRun(call("annual leave"), "Five days.", sources={"search_handbook": FOUND})
    update = ask(run, HANDBOOK)
    assert update["flow_msgs"][0]["content"] == "Five days."
    (result,) = update["rag_results"]["search_handbook"]
    assert (result["content"], result["metadata"]["page"]) == ("five days", 4)
    system = run.texts[0][0][1]
    assert "search_handbook: Finds passages of the handbook." in system and '"query"' in system
    (asked,) = run.asked
    assert (asked.text, asked.values["user_query"], asked.values["token_id"]) == (
        "annual leave",
        "annual leave",
        "me",
    )
    assert asked.calls[0].options == {"collection": "handbook", "top_k": 3}
    assert (asked.calls[0].timeout_s, asked.ttls_s) == (5, {"search_handbook": 60})
    role, told = run.texts[1][-1]
    assert role == "user" and told.startswith("search_handbook: ") and "five days" in told
    ((kind, event),) = run.events
    assert (kind, event["tool"], event["arguments"]) == (
        "tool",
        "search_handbook",
        {"query": "annual leave"},
    )


def test_both_kinds_of_tools_are_used_in_one_answer() -> None:
    run = NotedRun(
        call("leave"),
        call({"days": 7}, "clock"),
        call("sick leave"),
        "Done.",
        sources={"search_handbook": FOUND},
        tools={"clock": lambda arguments: {"now": "noon"}},
    )
    update = ask(run, "clock", HANDBOOK)
    assert len(update["rag_results"]["search_handbook"]) == 2
    assert any("noon" in text for _, text in run.texts[-1])


@pytest.mark.parametrize(
    "arguments", [{}, {"query": 1}, {"query": " "}, {"query": "x", "top_k": 99}]
)
def test_wrong_arguments_are_told_to_the_model_and_ask_nobody(arguments: dict[str, Any]) -> None:
    run = NotedRun(call(arguments), "Sorry.", sources={"search_handbook": FOUND})
    assert ask(run, HANDBOOK)["flow_msgs"][0]["content"] == "Sorry."
    assert run.asked == []
    assert "takes a text as “query”" in run.texts[1][-1][1]


def test_a_source_that_fails_is_told_or_ends_the_run() -> None:
    broken = {"search_handbook": {"error": "it is down"}}
    run = NotedRun(call("x"), "I could not look.", sources=broken)
    update = ask(run, HANDBOOK)
    assert "rag_results" not in update and "it is down" in run.texts[1][-1][1]
    with pytest.raises(ProviderError, match="it is down"):
        ask(NotedRun(call("x"), sources=broken), {**HANDBOOK, "on_error": "fail"})


def test_what_an_installation_lacks_ends_the_run() -> None:
    def lacks(_: Any) -> dict[str, Any]:
        raise ConfigurationError("No key is set.")

    with pytest.raises(ConfigurationError):
        ask(NotedRun(call({}, "clock"), tools={"clock": lacks}), "clock")


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (["clock", "clock"], "two tools are called “clock”"),
        ([HANDBOOK, "search_handbook"], "two tools are called “search_handbook”"),
        ([{**HANDBOOK, "description": ""}], "at least 1 character"),
        ([{**HANDBOOK, "name": "with space"}], "should match pattern"),
        ([{**HANDBOOK, "depends_on": ["x"]}], "at most 0 items"),
        ([{"type": "api"}], "name"),
    ],
)
def test_wrong_tools_are_refused(tools: list[Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        AgentNodeConfig.model_validate({"prompt": "p.md", "tools": tools})

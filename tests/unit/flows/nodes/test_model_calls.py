"""Models of a node: retried, replaced by fallbacks and defaults; tools by their own calls."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agents.flows.definition.node_configs import AgentNodeConfig
from agents.flows.definition.state import initial_state
from agents.flows.nodes import model_calls
from agents.flows.nodes.agent import AgentNode
from rag.core.errors import ProviderError, ProviderTimeoutError
from rag.core.types import ChatReply, ToolUse
from tests.unit.flows.test_flow_state import FLOW
from tests.unit.node_world import NotedRun

A, B = {"provider": "p", "name": "a"}, {"provider": "p", "name": "b", "temperature": 0.0}
DOWN, REFUSED = ProviderError("down", status=503), ProviderError("no", status=400)
LOOK = {"look": lambda given: {"found": given["x"]}}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_calls, "RETRY_WAIT_S", 0.0)
    monkeypatch.setattr(model_calls, "_TAKES_NONE", set())


def ask(run: NotedRun, **config: Any) -> dict[str, Any]:
    run.prompts = {"p.md": "Answer the question."}
    made = AgentNodeConfig.model_validate({"prompt": "p.md", **config})
    return asyncio.run(AgentNode().run(initial_state(FLOW, "Leave?"), made, run))


def native(name: str, **arguments: Any) -> ChatReply:
    return ChatReply("", tool_calls=(ToolUse("c1", name, arguments),))


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        ([DOWN, "yes"], ["p:a", "p:a"]),
        ([DOWN, ProviderTimeoutError("slow"), "yes"], ["p:a", "p:a", "p:b"]),
        # What it refuses it would refuse again.
        ([REFUSED, "yes"], ["p:a", "p:b"]),
    ],
)
def test_a_model_is_asked_again_and_then_another(answers: list[Any], asked: list[str]) -> None:
    run = NotedRun(*answers)
    update = ask(run, model=A, retries=1, fallback_models=[B])
    assert update["flow_msgs"][0]["content"] == "yes"
    assert [name for name, _ in run.requests] == asked
    temperature = run.requests[-1][1].temperature
    assert temperature == (0.0 if asked[-1] == "p:b" else 0.7)


def test_a_default_stands_where_all_fail() -> None:
    with pytest.raises(ProviderError):
        ask(NotedRun(DOWN, DOWN), model=A, fallback_models=[B])
    default = {"response_content": "Ask later.", "verdict": "unknown"}
    update = ask(NotedRun(DOWN, DOWN), model=A, fallback_models=[B], default=default)
    assert update["flow_msgs"][0]["content"] == "Ask later."
    assert update["edges_var"] == {"verdict": "unknown", "failed_node": "node", "failure": "down"}


def test_tools_are_called_by_the_models_own_calls() -> None:
    run = NotedRun(native("look", x=1), "It is 1.", tools=LOOK)
    run.has_tools = True
    assert ask(run, tools=["look"])["flow_msgs"][0]["content"] == "It is 1."
    first, second = (request for _, request in run.requests)
    assert [spec.name for spec in first.tools] == ["look"]
    assert "look" not in first.messages[0].content
    assistant, result = second.messages[-2:]
    assert (assistant.tool_calls[0].name, result.role) == ("look", "tool")
    assert result.tool_calls[0].id == "c1" and '"found": 1' in result.content


def test_a_server_that_refuses_tools_is_told_of_them_in_words_and_remembered() -> None:
    call = json.dumps({"tool": "look", "arguments": {"x": 2}})
    run = NotedRun(REFUSED, call, "It is 2.", tools=LOOK)
    run.has_tools = True
    assert ask(run, tools=["look"])["flow_msgs"][0]["content"] == "It is 2."
    assert [bool(request.tools) for _, request in run.requests] == [True, False, False]
    assert "look: does look" in run.requests[1][1].messages[0].content


@pytest.mark.parametrize("has_tools", [True, False])
def test_a_misspelt_tool_is_answered_with_the_known_ones(has_tools: bool) -> None:
    wrong: Any = native("loook") if has_tools else '{"tool": "loook", "arguments": {}}'
    run = NotedRun(wrong, "Then not.", tools=LOOK)
    run.has_tools = has_tools
    ask(run, tools=["look"])
    assert "Unknown tool “loook”. Known: look." in run.requests[1][1].messages[-1].content


def test_a_fallback_without_tools_goes_on_where_one_with_them_failed() -> None:
    run = NotedRun(native("look", x=1), DOWN, "It is 1.", tools=LOOK)
    names = iter([True, True, False])

    async def takes_tools(name: str) -> bool:
        return next(names)

    run.takes_tools = takes_tools  # type: ignore[method-assign]
    assert ask(run, tools=["look"], model=A, fallback_models=[B])["flow_msgs"]
    roles = [one.role for one in run.requests[-1][1].messages]
    assert roles == ["system", "user", "assistant", "user"]


def test_tools_of_an_mcp_server_are_called_by_its_name() -> None:
    shop = {"mcp": "https://tools.example/mcp", "name": "shop", "tools": ["find"]}
    call = json.dumps({"tool": "shop__find", "arguments": {"q": "vase"}})
    run = NotedRun(call, "Found.", tools={"shop__find": lambda given: {"text": given["q"]}})
    assert ask(run, tools=[shop])["flow_msgs"][0]["content"] == "Found."
    assert "shop__find: does shop__find" in run.requests[0][1].messages[0].content
    assert '{"text": "vase"}' in run.requests[1][1].messages[-1].content
    config = AgentNodeConfig.model_validate({"prompt": "p.md", "tools": [shop]})
    assert config.hosts() == {"tools.example"}


def test_the_words_for_tools_are_in_the_flows_language() -> None:
    run = NotedRun("好", tools=LOOK)
    run.prompts = {"p.md": "请根据资料回答用户的问题。"}
    config = AgentNodeConfig.model_validate({"prompt": "p.md", "tools": ["look"]})
    asyncio.run(AgentNode().run(initial_state(FLOW, "假期？"), config, run))
    assert "你可以调用下列工具" in run.requests[0][1].messages[0].content

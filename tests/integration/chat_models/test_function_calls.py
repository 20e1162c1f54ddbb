"""Function calling through the real SDKs against loopback servers, and a react agent on both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from agents.chat.agents import tools as react_tools
from agents.models import Agent
from rag.core.errors import ProviderError
from rag.core.ports import ChatRequest
from rag.core.tools import ToolSpec
from rag.core.types import Message, ToolUse
from rag.providers.gemini.chat import GeminiChatModel, GeminiChatOptions
from rag.providers.gemini.client import GeminiEndpoint
from rag.providers.openai_compatible.chat import ChatOptions, OpenAICompatibleChatModel
from rag.providers.remote.retry import RetryPolicy
from tests.contract_chat import collected
from tests.fakes.gemini_server import GeminiServer, camel
from tests.fakes.gemini_server import Script as GeminiScript
from tests.fakes.openai_server import OpenAIServer, Script
from tests.integration.agent_world import CITED, AgentWorld, world

__all__ = ["world"]
FAST = RetryPolicy(max_attempts=2, first_wait_s=0.005, max_wait_s=0.01, deadline_s=5.0)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
}
SPEC = ToolSpec("search", "Searches.", SCHEMA)
ASK = ChatRequest([Message("user", "How long?")], timeout_s=5.0, tools=(SPEC,))
PUMP = ToolUse("a1", "search", {"query": "pump"})
FILTER = "The filter of the pump is replaced once a year. It costs 45 yuan."
YEARLY = f'<cite doc_id="doc_02" quote="{FILTER}">Once a year.</cite>'


@pytest.fixture
def openai() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def gemini() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        yield server


def openai_chat(server: OpenAIServer) -> OpenAICompatibleChatModel:
    return OpenAICompatibleChatModel("qwen3", server.url, "", options=ChatOptions(retry=FAST))


def gemini_chat(server: GeminiServer) -> GeminiChatModel:
    endpoint = GeminiEndpoint(server.key, server.url)
    return GeminiChatModel("gemini-2.5-flash", endpoint, options=GeminiChatOptions({}, FAST))


def function(name: str = "", arguments: Any = None, **more: Any) -> dict[str, Any]:
    given = {"name": name} if name else {}
    return {**more, "function": given if arguments is None else {**given, "arguments": arguments}}


def test_openai_is_offered_tools_and_answers_with_calls(openai: OpenAIServer) -> None:
    openai.chat = Script(
        (),
        finish_reason="tool_calls",
        calls=(function("search", '{"query": "pump"}', id="a1", type="function"),),
    )
    reply = openai_chat(openai).generate(ASK)
    assert (reply.text, reply.tool_calls, reply.finish_reason) == ("", (PUMP,), "tool_calls")
    assert openai.calls[0].json["tools"] == [
        {
            "type": "function",
            "function": {"name": "search", "description": "Searches.", "parameters": SCHEMA},
        }
    ]


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        (
            (
                function("search", "", index=0, id="a1"),
                function(arguments='{"qu', index=0),
                function(arguments='ery": "pump"}', index=0),
            ),
            (PUMP,),
        ),
        (
            (
                function("search", '{"query": "pump"}', index=0, id="a1"),
                function("search", '{"query": "filter"}', index=1, id="a2"),
            ),
            (PUMP, ToolUse("a2", "search", {"query": "filter"})),
        ),
        # Servers are known that number nothing, give no id, or send the object itself.
        (
            (function("search", {"query": "pump"}), function("search", '{"query": "x"}')),
            (
                ToolUse("call_0", "search", {"query": "pump"}),
                ToolUse("call_1", "search", {"query": "x"}),
            ),
        ),
        ((function("search", "", index=0, id="a1"),), (ToolUse("a1", "search"),)),
        (
            (function("search", '{"query": ', index=0, id="a1"),),
            (ToolUse("a1", "search", fault="The arguments are no JSON."),),
        ),
        (
            (function("search", "[1]", index=0, id="a1"),),
            (ToolUse("a1", "search", fault="The arguments are no JSON object."),),
        ),
    ],
)
async def test_openai_streams_calls_in_pieces(
    openai: OpenAIServer, deltas: Any, expected: Any
) -> None:
    openai.chat = Script(("Let me see. ",), finish_reason="tool_calls", call_deltas=deltas)
    *pieces, last = await collected(openai_chat(openai).stream(ASK))
    assert last.tool_calls == expected and last.input_tokens == 11
    assert "".join(piece.text for piece in pieces) == "Let me see. "
    assert all(piece.tool_calls == () for piece in pieces)


async def test_openai_needs_no_text_where_calls_are(openai: OpenAIServer) -> None:
    delta = function("search", '{"query": "pump"}', index=0, id="a1")
    openai.chat = Script((), finish_reason="tool_calls", call_deltas=(delta,))
    (last,) = await collected(openai_chat(openai).stream(ASK))
    assert last.tool_calls == (PUMP,)
    openai.chat = Script((), finish_reason="tool_calls", call_deltas=({"index": 0, "function": 7},))
    with pytest.raises(ProviderError):
        await collected(openai_chat(openai).stream(ASK))


def test_openai_is_told_its_calls_and_their_results(openai: OpenAIServer) -> None:
    turns = [
        Message("user", "?"),
        Message("assistant", "", (PUMP,)),
        Message("tool", "two years", (PUMP,)),
    ]
    openai_chat(openai).generate(replace(ASK, messages=turns))
    assert openai.calls[0].json["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "a1",
                    "type": "function",
                    "function": {"name": "search", "arguments": '{"query": "pump"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "a1", "content": "two years"},
    ]


async def test_gemini_calls_are_read_and_sent_back_with_their_signature(
    gemini: GeminiServer,
) -> None:
    part = {
        "functionCall": {"id": "f1", "name": "search", "args": {"query": "pump"}},
        "thoughtSignature": "c2ln",
    }
    gemini.chat = GeminiScript(
        ("Let me see.",), calls=(part, {"functionCall": {"name": "search", "args": {"query": "x"}}})
    )
    chat = gemini_chat(gemini)
    *pieces, last = await collected(chat.stream(ASK))
    expected = (
        ToolUse("f1", "search", {"query": "pump"}, signature="c2ln"),
        ToolUse("", "search", {"query": "x"}),
    )
    assert last.tool_calls == chat.generate(ASK).tool_calls == expected
    assert [piece.text for piece in pieces] == ["Let me see."]
    sent = camel(gemini.calls[0].json)["tools"]
    assert sent == [
        {
            "functionDeclarations": [
                {"name": "search", "description": "Searches.", "parametersJsonSchema": SCHEMA}
            ]
        }
    ]
    turns = [
        Message("user", "?"),
        Message("assistant", "", expected),
        Message("tool", "two years", expected[:1]),
        Message("tool", "none", expected[1:]),
    ]
    chat.generate(replace(ASK, messages=turns))
    _, model, results = camel(gemini.calls[-1].json)["contents"]
    assert model["role"] == "model" and results["role"] == "user"
    assert model["parts"] == [part, {"functionCall": {"name": "search", "args": {"query": "x"}}}]
    assert [one["functionResponse"] for one in results["parts"]] == [
        {"id": "f1", "name": "search", "response": {"result": "two years"}},
        {"name": "search", "response": {"result": "none"}},
    ]


@pytest.fixture
def react(world: AgentWorld, monkeypatch: pytest.MonkeyPatch) -> AgentWorld:
    monkeypatch.setattr(react_tools, "_learnt", {})
    world.agent.agent_type = Agent.Type.REACT
    world.agent.max_iterations = 4
    world.set(enable_fast_path=False, default_top_k=1)
    return world


ARGUMENTS = {"query": "filter of the pump replaced", "top_k": 1}


def test_a_react_agent_works_on_an_openai_style_server(
    react: AgentWorld, openai: OpenAIServer
) -> None:
    def respond(asked: dict[str, Any]) -> Script:
        if asked["messages"][-1]["role"] == "tool":
            return Script((YEARLY[:30], YEARLY[30:]))
        delta = function("vector_retrieve", json.dumps(ARGUMENTS), index=0, id="a1")
        return Script((), finish_reason="tool_calls", call_deltas=(delta,))

    openai.respond = respond
    react.use(openai_chat(openai))
    told = react.ask("How often is the pump serviced?")
    assert told.text == "Once a year.[1]" and told.row.citations[0]["verdict"] == "verified"
    assert told.of("tool_call")[0]["arguments"] == ARGUMENTS


def test_a_react_agent_works_where_the_server_takes_no_tools(
    react: AgentWorld, openai: OpenAIServer
) -> None:
    def respond(asked: dict[str, Any]) -> Script:
        if "tool_result" in asked["messages"][-1]["content"]:
            return (
                Script((YEARLY,)) if "response_format" not in asked else Script(('{"calls": []}',))
            )
        if "response_format" in asked:
            return Script(
                (json.dumps({"calls": [{"tool": "vector_retrieve", "arguments": ARGUMENTS}]}),)
            )
        return Script((YEARLY,))

    openai.takes_tools, openai.respond = False, respond
    react.use(openai_chat(openai))
    told = react.ask("How often is the pump serviced?")
    assert told.text == "Once a year.[1]" and told.row.outcome == "answered"
    assert len(told.of("tool_call")) == 1
    bodies = [one.json for one in openai.calls]
    assert ["tools" in one for one in bodies] == [True, False, False, False]
    assert bodies[1]["response_format"]["json_schema"]["schema"]["required"] == ["calls"]


def test_a_react_agent_works_on_gemini(react: AgentWorld, gemini: GeminiServer) -> None:
    def respond(asked: dict[str, Any]) -> GeminiScript:
        if any("functionResponse" in part for part in asked["contents"][-1]["parts"]):
            return GeminiScript((YEARLY[:30], YEARLY[30:]))
        call = {
            "functionCall": {"name": "vector_retrieve", "args": ARGUMENTS},
            "thoughtSignature": "c2ln",
        }
        return GeminiScript(
            (),
            calls=(
                call,
                {
                    "functionCall": {
                        "name": "vector_retrieve",
                        "args": {"query": "warranty", "top_k": 1},
                    }
                },
            ),
        )

    gemini.respond = respond
    react.use(gemini_chat(gemini))
    told = react.ask("How often is the pump serviced?")
    assert told.text == "Once a year.[1]" and told.row.citations[0]["verdict"] == "verified"
    assert [one["id"] for one in told.of("tool_result")] == ["1.1", "1.2"]
    assert "parts" in gemini.calls[-1].json["contents"][-1]


def test_a_call_that_gemini_garbles_is_asked_for_in_another_form(
    react: AgentWorld, gemini: GeminiServer
) -> None:
    def respond(asked: dict[str, Any]) -> GeminiScript:
        if "tools" in asked:
            return GeminiScript((), finish_reason="MALFORMED_FUNCTION_CALL")
        is_form = "responseJsonSchema" in asked["generationConfig"]
        return GeminiScript(('{"calls": []}',) if is_form else (CITED,))

    gemini.respond = respond
    react.use(gemini_chat(gemini))
    assert react.ask("How often is the pump serviced?").text == "Every 30 days.[1]"
    assert ["tools" in one.json for one in gemini.calls] == [True, False, False]
    react.ask("How often is the pump serviced?")
    assert "tools" in gemini.calls[3].json, "a garbled call is no refusal"


def test_a_script_calls_tools_where_some_are_offered(react: AgentWorld) -> None:
    calls = {"calls": [{"tool": "vector_retrieve", "arguments": ARGUMENTS}]}
    script = {"answers": [{"contains": "pump", "answers": [calls, YEARLY]}]}
    react.use(script)
    assert react.ask("How often is the pump serviced?").text == "Once a year.[1]"
    react.set(tool_calling="text")
    react.use(script)
    told = react.ask("How often is the pump serviced?")
    assert told.text == "Once a year.[1]" and len(told.of("tool_call")) == 1
    assert CITED not in told.text

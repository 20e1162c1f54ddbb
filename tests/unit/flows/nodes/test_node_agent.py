"""The agent node: its prompt, what it reads of answers, repairs, tools."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agents.flows.definition.node_configs import AgentNodeConfig
from agents.flows.definition.state import initial_state
from agents.flows.nodes.agent import AgentNode
from agents.flows.nodes.model_calls import MAX_ROUNDS
from rag.core.errors import (
    InvalidInputError,
    LimitError,
    NotFoundError,
    ProviderError,
    ProviderTimeoutError,
    UnknownNameError,
)
from rag.core.hits import Hit
from tests.unit.flows.test_flow_state import FLOW
from tests.unit.node_world import NotedRun

MODEL = {"provider": "doubao", "name": "seed", "temperature": 0.1, "timeout": 5}
JSON_PROMPT = 'Answer as JSON {"intent": "qa"}. {user_query}'


def ask(run: NotedRun, state: dict[str, Any] | None = None, **config: Any) -> dict[str, Any]:
    run.prompts = run.prompts or {"p.md": JSON_PROMPT}
    made = AgentNodeConfig.model_validate({"prompt": "p.md", **config})
    full = {**initial_state(FLOW, "年假？"), **(state or {})}
    return asyncio.run(AgentNode().run(full, made, run))


def test_variables_go_to_the_edges_and_the_text_to_people() -> None:
    answer = json.dumps(
        {
            "response_content": "5 days",
            "analysis_result": "sufficient",
            "confidence": 0.9,
            "reasoning_summary": "why",
            "additional_fields": {"risk_level": "low"},
        }
    )
    run = NotedRun(f"Here it is:\n```json\n{answer}\n```")
    update = ask(run, model=MODEL)
    assert update == {
        "flow_msgs": [{"role": "assistant", "content": "5 days"}],
        "edges_var": {
            "risk_level": "low",
            "analysis_result": "sufficient",
            "confidence": 0.9,
            "parse_error": False,
        },
        "confidence": 0.9,
    }
    name, request = run.requests[0]
    assert (name, request.temperature, request.timeout_s, request.options) == (
        "doubao:seed",
        0.1,
        5,
        {},
    )


def test_the_prompt_is_filled_and_the_rest_of_its_braces_stays() -> None:
    prompt = 'Sources: {rag_context} {"json": 1} {policy} {channel} {unknown} {intent}'
    run = NotedRun('{"response_content": "x"}', prompts={"p.md": prompt})
    ask(
        run,
        {
            "rag_results": {
                "kb": [
                    {
                        "content": "five days {user_query}",
                        "score": 0.81,
                        "metadata": {"source": "a.pdf", "page": 3, "section": "Leave"},
                    }
                ]
            },
            "policy": {"rows": [{"name": "leave", "days": 5}]},
            "prompt_vars": {"channel": "web"},
            "history_messages": [
                {"role": "user", "content": "hi"},
                {"role": "tool", "content": "x"},
            ],
        },
    )
    (system, earlier, user) = run.texts[0]
    assert system == (
        "system",
        'Sources: ## kb\n\n[1] a.pdf, p. 3, Leave (0.81)\nfive days {user_query} {"json": 1} '
        "## rows\n\n[2] name: leave\ndays: 5 web  ",
    )
    assert (earlier, user) == (("user", "hi"), ("user", "年假？"))
    assert run.requests[0][1].passages == [("doc_01", "five days {user_query}")]


def test_an_answer_to_a_prompt_that_wants_no_json_is_text_whatever_it_holds() -> None:
    run = NotedRun('Use this config: {"a": 1}', prompts={"p.md": "Answer {user_query}"})
    assert ask(run) == {
        "flow_msgs": [{"role": "assistant", "content": 'Use this config: {"a": 1}'}],
        "edges_var": {},
    }


def test_what_is_no_json_is_repaired_once() -> None:
    run = NotedRun("I think so", '{"intent": "qa"}')
    assert ask(run)["edges_var"] == {"intent": "qa", "parse_error": False}
    first, second = run.texts
    assert second[: len(first)] == first
    assert second[-2] == ("assistant", "I think so")
    assert "it holds no JSON object" in second[-1][1]


def test_what_cannot_be_repaired_has_a_defined_end() -> None:
    update = ask(NotedRun("I think so", "still no"))
    assert update == {
        "flow_msgs": [{"role": "assistant", "content": "I think so"}],
        "edges_var": {"parse_error": True},
    }


@pytest.mark.parametrize("second", ['{"verdict": "yes"}', "no"])
def test_an_answer_of_another_form_is_repaired_too(second: str) -> None:
    schema = {
        "type": "object",
        "required": ["verdict"],
        "properties": {"verdict": {"enum": ["yes", "no"]}},
    }
    run = NotedRun('{"verdict": "perhaps"}', second)
    update = ask(run, output_schema=schema)
    good = second.startswith("{")
    assert update["edges_var"] == {"verdict": "yes" if good else "perhaps", "parse_error": not good}
    assert run.requests[0][1].options["response_format"]["json_schema"]["schema"] == schema
    assert "“verdict” is none of yes, no." in run.texts[1][-1][1]


def test_a_server_that_knows_no_form_is_asked_without() -> None:
    refusal = ProviderError("{service} refused", service="s", status=400)
    run = NotedRun(refusal, '{"a": 1}')
    assert ask(run, output_schema={"type": "object"})["edges_var"] == {"a": 1, "parse_error": False}
    assert "response_format" not in run.requests[1][1].options


@pytest.mark.parametrize(
    "error",
    [
        ProviderError("{service} failed", service="s", status=503),
        ProviderTimeoutError("late"),
        ProviderError("no"),
    ],
)
def test_other_failures_are_raised_at_once(error: ProviderError) -> None:
    run = NotedRun(error, "never asked")
    with pytest.raises(type(error)):
        ask(run, output_schema={"type": "object"})
    assert len(run.requests) == 1


def test_a_prompt_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFoundError, match=r"no prompt “gone.md”"):
        ask(NotedRun("x"), prompt="gone.md")


def test_tools_are_told_called_and_answered() -> None:
    run = NotedRun(
        'I look it up: {"tool": "pressure", "arguments": {"days": 7}}',
        '{"intent": "ok"}',
        tools={"pressure": lambda arguments: {"days": arguments["days"], "systolic": 150}},
    )
    assert ask(run, tools=["pressure"])["edges_var"] == {"intent": "ok", "parse_error": False}
    assert "- pressure: does pressure" in run.texts[0][0][1]
    assert run.texts[1][-1] == ("user", 'pressure: {"days": 7, "systolic": 150}')


def test_a_tool_that_fails_is_told_to_the_model() -> None:
    def refuse(arguments: Any) -> dict[str, Any]:
        raise InvalidInputError("{n} days are too many.", n=arguments["days"])

    run = NotedRun(
        '{"tool": "pressure", "arguments": {"days": 900}}',
        '{"intent": "none"}',
        tools={"pressure": refuse},
    )
    ask(run, tools=["pressure"])
    assert run.texts[1][-1] == ("user", 'pressure: {"error": "900 days are too many."}')


def test_a_tool_that_the_node_does_not_have_is_answered_with_those_it_has() -> None:
    run = NotedRun(
        '{"tool": "delete_all", "arguments": {}}',
        '{"intent": "none"}',
        tools={"pressure": lambda _: {}, "delete_all": lambda _: {"is_deleted": True}},
    )
    assert ask(run, tools=["pressure"])["edges_var"]["intent"] == "none"
    told = run.texts[1][-1][1]
    assert "pressure" in told and "is_deleted" not in told


def test_calls_in_a_model_s_own_dialect_are_made() -> None:
    run = NotedRun(
        '<tool_call>{"name": "pressure", "arguments": {"days": 2}}</tool_call>',
        '{"intent": "qa"}',
        tools={"pressure": lambda arguments: {"bar": arguments["days"]}},
    )
    assert ask(run, tools=["pressure"])["edges_var"]["intent"] == "qa"
    assert run.texts[1][-1] == ("user", 'pressure: {"bar": 2}')


def test_calls_without_end_are_ended() -> None:
    run = NotedRun(*['{"tool": "t", "arguments": {}}'] * 20, tools={"t": lambda _: {}})
    with pytest.raises(LimitError, match=f"called tools {MAX_ROUNDS} times"):
        ask(run, tools=["t"])
    assert len(run.requests) == MAX_ROUNDS + 1


def test_an_unknown_tool_stops_before_any_call() -> None:
    run = NotedRun("x")
    with pytest.raises(UnknownNameError):
        ask(run, tools=["gone"])
    assert run.requests == []


def test_a_long_context_is_cut_to_its_tokens() -> None:
    run = NotedRun("x", prompts={"p.md": "{rag_context}"})
    found = [{"content": f"{n}: " + "x" * 80} for n in range(10)]
    ask(run, {"rag_results": {"kb": found}}, context_tokens=300)
    text, rule = run.texts[0][0][1].rsplit("\n\n", 1)
    assert len(text) <= 330 and "编号" in rule
    assert text.endswith("(7 more left out)")


def test_a_model_that_answers_from_passages_has_the_headers_of_their_tables() -> None:
    run = NotedRun("It costs 3.", prompts={"p.md": "Answer {user_query}"})
    text, header = "| PN-7 | 3 |", "| Part | Price |"
    hit = Hit(text=text, rank=1, chunk_id=7, revision=1, table_header=header)
    run.passages.number([hit])
    # What a source shows of a hit has no header.
    ask(run, {"rag_results": {"kb": [{"content": text, "chunk_id": 7, "revision": 1}]}})
    (_, request), *_ = run.requests
    assert request.passages == [("doc_01", text)]
    assert request.table_headers == [header]

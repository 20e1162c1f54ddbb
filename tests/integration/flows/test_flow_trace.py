"""Traces of runs: what each visit was given, asked, found and answered, and why it went on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents import models
from agents.flows.definition.archive import FlowFiles
from agents.flows.runs.compare import compare_flow_runs
from agents.flows.runs.control import rerun_flow
from agents.flows.runs.redact import redact_deleted_runs
from agents.flows.runs.run_traces import MAX_RUN_TRACE
from agents.flows.runs.trace import visit_trace
from agents.flows.runs.worker import run_to_end
from agents.flows.versions.versions import activate_version, save_flow_version
from rag.core.access import Scope
from rag.core.errors import NotFoundError, ProviderError
from rag.core.ports import ChatRequest
from rag.models import File
from rag.services.access.api_keys import scope_of
from rag.services.files.delete import delete_files
from tests.factories import GroupFactory, UserFactory
from tests.integration.agent_world import QUOTE, AgentWorld, world
from tests.integration.flows.test_flow_cited import (
    ANSWER,
    ASKED,
    FIND,
    flow_of,
    run_of,
    simple_flow,
)

__all__ = ["world"]

JUDGE = (
    'Judge as JSON {"verdict": "good|bad", "n_gone": 0} from {rag_context}. A rule of the house.'
)
TOOL = {
    "type": "vector_store",
    "name": "look",
    "collection": "manuals",
    "top_k": 1,
    "description": "Finds.",
}
NODES = [
    {"name": "find", "type": "rag", "config": {"data_sources": [{**FIND, "top_k": 2}]}},
    {"name": "judge", "type": "agent", "config": {"prompt": "judge.md"}},
    {"name": "answer", "type": "agent", "config": {"prompt": "p.md", "tools": [TOOL]}},
]
EDGES = [
    {"from": "find", "to": "judge"},
    {"from": "judge", "to": "END", "condition": 'verdict == "bad" || n_gone > 1'},
    {"from": "judge", "to": "answer", "condition": 'verdict == "good"'},
    {"from": "judge", "to": "END", "condition": "default"},
    {"from": "answer", "to": "END"},
]
CALLS = [
    '{"tool": "look", "arguments": {"query": "seeds"}}',
    '{"tool": "nope", "arguments": {}}',
]


def said(request: ChatRequest) -> str:
    if "Judge as JSON" in request.messages[0].content:
        return json.dumps({"verdict": "good"})
    n_asked = sum(one.role == "assistant" for one in request.messages)
    return CALLS[n_asked] if n_asked < len(CALLS) else f"{QUOTE} [1]"


@pytest.fixture
def run(world: AgentWorld) -> models.FlowRun:
    world.use(said)
    text = {"name": "desk", "nodes": NODES, "edges": EDGES, "entry_node": "find"}
    prompts = {"judge.md": JUDGE, "p.md": ANSWER}
    version = save_flow_version(files=FlowFiles(json.dumps(text), prompts), scope=world.scope)
    activate_version(version=version, scope=world.scope)
    return run_of(world, version.flow)


def told(run: models.FlowRun, node: str, scope: Scope, visit: int = 1) -> dict[str, Any]:
    run.refresh_from_db()
    return visit_trace(run=run, scope=scope, node=node, visit=visit)


def test_a_visit_tells_all_that_led_to_its_outcome(
    run: models.FlowRun, world: AgentWorld, settings: Any
) -> None:
    price = {"input": 1000, "output": 2000, "currency": "EUR"}
    settings.RAG = {**settings.RAG, "PRICES": {"test:model": price}}
    assert run.status == "done", run.error
    found = told(run, "find", world.scope)
    assert found["inputs"]["message"] == ASKED and found["retrieval"]["query"] == ASKED
    first = found["retrieval"]["passages"][0]
    assert (first["number"], first["source"]) == (1, "pump manual.txt") and first["score"] > 0
    assert QUOTE in first["content"] and found["calls"] == []
    judge = told(run, "judge", world.scope)
    (call,) = judge["calls"]
    assert call["messages"][0]["content"].startswith("Judge as JSON") and QUOTE in str(call)
    assert call["messages"][-1] == {"role": "user", "content": ASKED}
    assert (call["answer"], call["model"]) == ('{"verdict": "good"}', "test:model")
    assert (call["input_tokens"], call["output_tokens"]) == (10, 5) and call["duration_ms"] > 0
    assert (call["cost"], call["currency"]) == ("0.020000000", "EUR")
    assert judge["outputs"]["variables"] == {"verdict": "good", "parse_error": False}
    tests = judge["route"]["tests"]
    assert [(one["condition"], one["is_true"]) for one in tests] == [
        ('verdict == "bad" || n_gone > 1', False),
        ('verdict == "good"', True),
    ]
    assert tests[0]["values"] == {"verdict": "good"} and tests[0]["missing"] == ["n_gone"]
    assert judge["route"]["targets"] == ["answer"]


def test_tool_calls_and_every_further_prompt_are_told_once(
    run: models.FlowRun, world: AgentWorld
) -> None:
    answer = told(run, "answer", world.scope)
    assert answer["inputs"]["variables"]["verdict"] == "good"
    assert [one["n_before"] for one in answer["calls"]] == [0, 2, 4]
    assert [len(one["messages"]) for one in answer["calls"]] == [2, 2, 2]
    good, wrong = answer["tools"]
    assert (good["tool"], good["arguments"]) == ("look", {"query": "seeds"})
    assert "15 November" in str(good["answer"]) and good["duration_ms"] > 0
    assert wrong["tool"] == "nope" and "look" in wrong["error"]["params"]["known"]
    assert answer["outputs"]["response"] == run.answer


def test_a_call_that_failed_is_told_with_its_prompt(world: AgentWorld) -> None:
    def fails(request: ChatRequest) -> str:
        raise ProviderError("The line is cut.")

    world.use(fails)
    run = run_of(world, simple_flow(world))
    (call,) = told(run, "answer", world.scope)["calls"]
    assert call["error"]["message"] == "The line is cut." and "Answer from" in str(call["messages"])
    assert told(run, "answer", world.scope)["inputs"]["message"] == ASKED


def test_who_may_not_read_a_run_is_told_none_of_its_words(
    run: models.FlowRun, world: AgentWorld
) -> None:
    group = GroupFactory()
    run.version.flow.editor_groups.add(group)
    editor = scope_of(UserFactory(groups=[group]))
    shown = told(run, "judge", editor)
    assert shown["inputs"] is None and shown["outputs"] is None and shown["is_readable"] is False
    text = json.dumps(shown, default=str)
    assert "good" not in text.replace('verdict == \\"good\\"', "") and "pump" not in text
    assert shown["calls"][0]["input_tokens"] == 10 and shown["calls"][0]["messages"] is None
    assert shown["route"]["tests"][0]["condition"] and shown["route"]["tests"][0]["values"] is None
    with pytest.raises(NotFoundError):
        told(run, "judge", world.scope, visit=2)


@pytest.mark.parametrize("is_stored", [False, True])
def test_what_is_gone_is_in_no_trace(
    run: models.FlowRun, world: AgentWorld, is_stored: bool
) -> None:
    pump = File.objects.get(name="pump manual.txt")
    delete_files(scope=Scope.operator(), file_ids=[pump.pk])
    if is_stored:
        redact_deleted_runs()
        rows = run.events.values_list("data", "record", "trace")
        assert "every 30 days" not in json.dumps(list(rows), ensure_ascii=False)
    for node in ("find", "judge", "answer"):
        text = json.dumps(told(run, node, world.scope), default=str)
        assert "every 30 days" not in text and "maintenance" not in text, node
    prompt = told(run, "judge", world.scope)["calls"][0]["messages"][0]["content"]
    # What the flow's author wrote is told still.
    assert "[…]" in prompt and "put the number of the passage" not in prompt


def test_a_trace_is_bounded(world: AgentWorld) -> None:
    world.use("short")
    prompts = {"long.md": "word " * 100_000, "p.md": "Say. {flow_msgs}"}
    nodes = {name: {"prompt": "long.md"} for name in "abcdefghijklmn"}
    run = run_of(world, flow_of(world, nodes, prompts))
    assert run.status == "done", run.error
    sizes = [len(one or "") for one in run.events.values_list("trace", flat=True)]
    assert max(sizes) < 220_000 and sum(sizes) < MAX_RUN_TRACE + 220_000
    cut = told(run, "a", world.scope)["calls"][0]["messages"][0]["content"]
    assert cut.endswith("more characters)") and len(cut) < 110_000


def test_two_runs_are_compared_visit_by_visit(run: models.FlowRun, world: AgentWorld) -> None:
    world.use(lambda request: said(request).replace("good", "bad"))
    again = rerun_flow(run=run, scope=world.scope, from_node="judge", answers="fresh")
    again = async_to_sync(run_to_end)(run=again)
    rows = compare_flow_runs(first=run, second=again, scope=world.scope)
    assert [(one["node"], one["differs"]) for one in rows] == [
        ("find", []),
        ("judge", ["variables", "route"]),
        ("answer", ["visit"]),
    ]
    assert rows[1]["first"]["variables"]["verdict"] == "good"
    assert rows[1]["second"]["route"]["condition"] == 'verdict == "bad" || n_gone > 1'
    assert rows[2]["second"] is None

"""What a deleted or hidden file said is gone from runs of flows: answers, outputs, variables."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents import models
from agents.flows.runs.read import run_summary
from agents.flows.runs.redact import redact_deleted_runs
from agents.flows.runs.worker import FlowWorker
from rag.core.access import Scope
from rag.core.ports import ChatRequest
from rag.models import File
from rag.services.files.delete import delete_files
from tests.factories import StoreFactory
from tests.integration.agent_world import QUOTE, AgentWorld, world
from tests.integration.flows.test_flow_cited import ANSWER, FIND, flow_of, run_of

__all__ = ["world"]

SEEDS = "Seeds are borrowed from the library until 15 November."
CODE = "every 30 days"
JUDGE = 'As JSON {"response_content": "…", "rhythm": "…", "days": 0} from {rag_context}'


@pytest.fixture
def run(world: AgentWorld) -> models.FlowRun:
    """Return a run over two files whose texts, variables and review hold what both say."""
    nodes = {
        "find": {"data_sources": [{**FIND, "top_k": 1}]},
        "more": {"data_sources": [{**FIND, "name": "more", "top_k": 1}], "query": SEEDS},
        "judge": {"prompt": "judge.md"},
        "answer": {"prompt": "p.md"},
    }

    def said(request: ChatRequest) -> str:
        if "As JSON" in request.messages[0].content:
            told = {"response_content": f"Serviced {CODE} [1].", "rhythm": CODE, "days": 30}
            return json.dumps(
                {**told, "note": f"The pump is serviced {CODE} by the team.", "by": "2"}
            )
        return f'<cite doc_id="doc_01" quote="{QUOTE}">Serviced {CODE}</cite>. {SEEDS} [2]'

    world.use(said)
    run = run_of(world, flow_of(world, nodes, {"p.md": ANSWER, "judge.md": JUDGE}))
    assert run.answer == f"Serviced {CODE}[1]. {SEEDS} [2]", run.error
    return run


def told(run: models.FlowRun, world: AgentWorld) -> str:
    async def followed() -> list[Any]:
        return [event.data async for event in FlowWorker.replay(run.pk)]

    run.refresh_from_db()
    summary = run_summary(run=run, scope=world.scope, is_whole=True)
    return json.dumps([summary, async_to_sync(followed)()], ensure_ascii=False, default=str)


def test_what_is_there_stays(run: models.FlowRun, world: AgentWorld) -> None:
    assert redact_deleted_runs() == 0
    text = told(run, world)
    assert text.count(CODE) > 8 and text.count("15 November") > 4


@pytest.mark.parametrize("is_deleted", [True, False])
def test_what_is_gone_is_nowhere_told(
    run: models.FlowRun, world: AgentWorld, is_deleted: bool
) -> None:
    pump = File.objects.get(name="pump manual.txt")
    if is_deleted:
        delete_files(scope=Scope.operator(), file_ids=[pump.pk])
    else:
        other = StoreFactory(name="Other")
        File.objects.filter(pk=pump.pk).update(store=other)
        pump.chunks.update(store=other)
    text = told(run, world)
    assert CODE not in text and "serviced" not in text.replace(
        "How often is the pump serviced?", ""
    )
    summary = run_summary(run=run, scope=world.scope)
    assert summary["answer"] == f"[…][1] {SEEDS} [2]"
    assert summary["variables"]["rhythm"] == "[…]" and summary["variables"]["days"] is None
    assert summary["variables"]["by"] == "2"
    assert summary["citations"][0]["is_gone"] and summary["citations"][1]["quote"]
    assert [one["content"] == "" for one in summary["passages"]] == [True, False]


def test_what_was_deleted_is_gone_from_the_rows_too(run: models.FlowRun, world: AgentWorld) -> None:
    pump = File.objects.get(name="pump manual.txt")
    delete_files(scope=Scope.operator(), file_ids=[pump.pk])
    assert redact_deleted_runs() == 0, "done at commit"
    run.refresh_from_db()
    row = json.dumps([run.answer, run.citations, run.grounding, run.passages, run.state])
    events = json.dumps([[one.data, one.record] for one in run.events.all()], ensure_ascii=False)
    assert CODE not in row and CODE not in events and "maintenance" not in row + events
    assert "15 November" in row and "15 November" in events
    assert CODE not in told(run, world)

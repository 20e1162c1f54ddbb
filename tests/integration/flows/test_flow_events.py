"""What streams of runs stand on: followers that leave, words cleared away, errors with their code."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest
from django.http import HttpRequest
from django.utils import timezone

from agents import models
from agents.api.http.sse import last_event_id, localize_error
from agents.flows.definition.archive import FlowFiles
from agents.flows.runs.start import RunRequest, create_run
from agents.flows.runs.worker import FlowWorker, run_in_background
from agents.flows.versions.versions import activate_version, save_flow_version
from agents.runtime.retention import purge_tokens
from agents.runtime.worker import error_payload
from rag.core.access import Scope
from rag.core.errors import ConflictError, InvalidInputError
from rag.services.threads import run_thread_sensitive

OPERATOR = Scope.operator()
FLOW = json.dumps(
    {
        "name": "talk",
        "entry_node": "a",
        "edges": [{"from": "a", "to": "END"}],
        "nodes": [{"name": "a", "type": "agent", "config": {"prompt": "a.md"}}],
    }
)


@pytest.fixture
def run(db: None, tmp_path: Any) -> models.FlowRun:
    script = tmp_path / "s.yaml"
    script.write_text("answers: [{contains: Say, answer: one two three, delay_s: 0.3}]", "utf-8")
    version = save_flow_version(files=FlowFiles(FLOW, {"a.md": "Say it."}), scope=OPERATOR)
    activate_version(version=version, scope=OPERATOR)
    request = RunRequest(flow=version.flow, scope=OPERATOR, message="x", model=f"scripted:{script}")
    return create_run(request=request)


async def test_who_leaves_is_forgotten_and_the_run_goes_on(run: models.FlowRun) -> None:
    await run_in_background(run=run)
    worker = FlowWorker.active[run.pk]
    async with aclosing(FlowWorker.replay(run.pk)) as events:
        first = await anext(events)
    assert (first.kind, first.data["run"], first.data["flow"]) == (
        "run_started",
        str(run.key),
        "talk",
    )
    assert not worker.log._changed._waiters
    waiting = asyncio.create_task(anext(FlowWorker.replay(run.pk, after=10**6)))
    while not worker.log._changed._waiters:
        await asyncio.sleep(0)
    # As a server does when the connection is gone.
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not worker.log._changed._waiters
    kinds = [event.kind async for event in FlowWorker.replay(run.pk, after=1)]
    assert kinds[0] == "node_started" and kinds[-1] == "done"
    assert run.pk not in FlowWorker.active


async def test_only_the_words_of_old_runs_are_cleared_away(run: models.FlowRun) -> None:
    await run_in_background(run=run)
    kinds = [event.kind async for event in FlowWorker.replay(run.pk)]
    assert "token" in kinds
    assert await run_thread_sensitive(purge_tokens, older_than_h=1) == 0
    late = timezone.now() - timedelta(hours=3)
    await run_thread_sensitive(models.FlowRun.objects.filter(pk=run.pk).update, ended_at=late)
    assert await run_thread_sensitive(purge_tokens, older_than_h=1) == kinds.count("token")
    left = [event async for event in FlowWorker.replay(run.pk)]
    assert [event.kind for event in left] == [kind for kind in kinds if kind != "token"]
    assert left[-1].data["answer"] == "one two three"


def test_errors_have_a_code_and_keep_it_in_every_language() -> None:
    told, code = error_payload(ConflictError("The run has ended already."), FlowWorker.fault)
    assert code == "conflict" and told == {
        "message": "The run has ended already.",
        "hint": "",
        "params": {},
    }
    assert (
        localize_error({"error": {**told, "code": code}}, "zh-hans")["error"]["code"] == "conflict"
    )
    fault, code = error_payload(ZeroDivisionError("secret"), FlowWorker.fault)
    assert code == "internal" and "secret" not in str(fault)


@pytest.mark.parametrize(("given", "seen"), [("", 3), ("7", 7), (" 12 ", 12), ("0", 0)])
def test_the_last_event_is_read_from_its_header(given: str, seen: int) -> None:
    request = HttpRequest()
    request.META["HTTP_LAST_EVENT_ID"] = given
    assert last_event_id(request, 3) == seen


@pytest.mark.parametrize("given", ["x", "-1", "1.5", "１", "1" * 10])
def test_what_is_no_id_is_refused(given: str) -> None:
    request = HttpRequest()
    request.META["HTTP_LAST_EVENT_ID"] = given
    with pytest.raises(InvalidInputError, match="is no id of an event"):
        last_event_id(request, 0)

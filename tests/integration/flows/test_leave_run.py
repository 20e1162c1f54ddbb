"""A process that ends: its runs are left as they stand, and a job goes on with each of them."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from procrastinate.contrib.django.models import ProcrastinateJob

from agents import models
from agents.flows.definition.archive import FlowFiles
from agents.flows.runs import worker
from agents.flows.runs.control import cancel_flow
from agents.flows.runs.start import RunRequest, create_run
from agents.flows.runs.worker import (
    FlowWorker,
    release_all,
    release_all_and_wait,
    release_lease,
    resume_abandoned,
    run_in_background,
)
from agents.flows.versions.versions import activate_version, save_flow_version
from project import asgi
from rag.core.access import Scope
from rag.core.hits import Hit
from rag.core.plugins import PLUGINS
from rag.core.sources import SourceQuery, SourceResult
from rag.services.threads import run_thread_sensitive

OPERATOR = Scope.operator()
NODES = [
    {"name": "find", "type": "rag", "config": {"data_sources": [{"type": "waiting"}]}},
    {"name": "write", "type": "agent", "config": {"prompt": "w.md"}},
]
FLOW = json.dumps(
    {
        "name": "long",
        "entry_node": "find",
        "nodes": NODES,
        "edges": [{"from": "find", "to": "write"}, {"from": "write", "to": "END"}],
    }
)


class WaitingSource:
    """Answers once it may; counts how often it was asked."""

    name, label = "waiting", "Waiting"
    may = threading.Event()
    n_asked = 0

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def retrieve(self, query: SourceQuery) -> SourceResult:
        type(self).n_asked += 1
        while not self.may.wait(0.01):
            query.deadline.check()
        return SourceResult((Hit(text="a fact", rank=1),))


@pytest.fixture
def run(db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> models.FlowRun:
    monkeypatch.setitem(PLUGINS._found["source"], "waiting", WaitingSource)
    WaitingSource.may, WaitingSource.n_asked = threading.Event(), 0
    script = tmp_path / "s.yaml"
    script.write_text("answers: [{contains: Write, answer: it is so, delay_s: 0.2}]", "utf-8")
    version = save_flow_version(files=FlowFiles(FLOW, {"w.md": "Write it."}), scope=OPERATOR)
    activate_version(version=version, scope=OPERATOR)
    request = RunRequest(flow=version.flow, scope=OPERATOR, message="x", model=f"scripted:{script}")
    return create_run(request=request)


def request_of(run: models.FlowRun) -> RunRequest:
    return RunRequest(flow=run.version.flow, scope=OPERATOR, message="y", model=run.model)


async def reached(run: models.FlowRun, node: str) -> None:
    """Let a run go on until it is at work in a node."""
    if run.pk not in FlowWorker.active:
        await run_in_background(run=run)
    async for event in FlowWorker.replay(run.pk):
        if event.kind == "node_started" and event.node == node:
            return


async def kinds(run: models.FlowRun) -> list[tuple[str, str]]:
    return [(event.kind, event.node) async for event in FlowWorker.replay(run.pk)]


def jobs() -> list[Any]:
    rows = ProcrastinateJob.objects.filter(task_name="agents.adopt_run")
    return list(rows.values_list("queue_name", "status", "args"))


async def test_a_run_is_left_in_its_model_s_call_and_goes_on_without_asking_again(
    run: models.FlowRun,
) -> None:
    WaitingSource.may.set()
    await reached(run, "write")
    await release_all_and_wait()
    await run_thread_sensitive(run.refresh_from_db)
    assert (run.status, run.worker, run.seen_at, run.error) == ("running", None, None, None)
    assert FlowWorker.active == {}
    assert await run_thread_sensitive(jobs) == [("flows", "todo", {"run_id": run.pk})]
    assert await resume_abandoned(run_id=run.pk) is True
    told = await kinds(run)
    assert told.count(("node_finished", "find")) == told.count(("node_finished", "write")) == 1
    assert told.count(("node_started", "write")) == 2 and told[-1] == ("done", "")
    assert WaitingSource.n_asked == 1


async def test_a_run_is_left_in_the_middle_of_a_source(run: models.FlowRun) -> None:
    await reached(run, "find")
    while not WaitingSource.n_asked:
        await asyncio.sleep(0)
    await release_all_and_wait()
    await run_thread_sensitive(run.refresh_from_db)
    assert (run.status, run.worker, run.error) == ("running", None, None)
    WaitingSource.may.set()
    assert await resume_abandoned(run_id=run.pk) is True
    told = await kinds(run)
    assert told[-1] == ("done", "") and ("node_failed", "find") not in told
    assert WaitingSource.n_asked == 2


async def test_who_follows_a_run_that_is_left_sees_it_go_on(run: models.FlowRun) -> None:
    await reached(run, "find")
    following = asyncio.create_task(kinds(run))
    await asyncio.sleep(0)
    await release_all_and_wait()
    WaitingSource.may.set()
    await resume_abandoned(run_id=run.pk)
    told = await following
    assert told[0] == ("run_started", "") and told[-1] == ("done", "")
    assert told.count(("continued", "")) == 1


async def test_who_is_told_twice_leaves_once(
    run: models.FlowRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_leaving = threading.Event()

    def slowly(*, run: models.FlowRun) -> None:
        is_leaving.set()
        time.sleep(0.05)
        release_lease(run=run)

    monkeypatch.setattr(worker, "release_lease", slowly)
    again = await run_thread_sensitive(create_run, request=request_of(run))
    for one in (run, again):
        await reached(one, "find")
    release_all()
    while not is_leaving.is_set():
        await asyncio.sleep(0.001)
    # As the server does: at the signal, and when its streams have ended. One is still queued then.
    await release_all_and_wait()
    for one in (run, again):
        await run_thread_sensitive(one.refresh_from_db)
        assert (one.status, one.worker) == ("running", None)
    assert len(await run_thread_sensitive(jobs)) == 2


async def test_a_run_that_was_cancelled_is_not_left(run: models.FlowRun) -> None:
    await reached(run, "find")
    await run_thread_sensitive(cancel_flow, run=run, scope=OPERATOR)
    await release_all_and_wait()
    assert (await kinds(run))[-1] == ("cancelled", "")
    assert await run_thread_sensitive(jobs) == []
    assert await resume_abandoned(run_id=run.pk) is False


async def test_a_run_that_another_has_taken_is_not_queued(run: models.FlowRun) -> None:
    await reached(run, "find")
    other = "00000000-0000-4000-8000-000000000000"
    await run_thread_sensitive(models.FlowRun.objects.filter(pk=run.pk).update, worker=other)
    await release_all_and_wait()
    await run_thread_sensitive(run.refresh_from_db)
    assert (run.status, str(run.worker)) == ("running", other)
    assert await run_thread_sensitive(jobs) == []


async def test_nothing_at_work_is_left_at_once() -> None:
    release_all()
    await asyncio.wait_for(release_all_and_wait(), 0.5)


async def test_the_web_server_leaves_its_runs_before_it_ends(
    run: models.FlowRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asgi, "warm_up", lambda: None)
    sent: list[str] = []

    async def receive() -> Any:
        if not sent:
            return {"type": "lifespan.startup"}
        await reached(run, "find")
        return {"type": "lifespan.shutdown"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await asgi.application({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    await run_thread_sensitive(run.refresh_from_db)
    assert (run.status, run.worker) == ("running", None)
    assert len(await run_thread_sensitive(jobs)) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_runs_and_then_reaches_the_server(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Any] = []
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(asgi, "release_all", lambda: heard.append("left"))
    try:
        signal.signal(number, lambda number, frame: heard.append(number))
        asgi._heed_signals()
        signal.raise_signal(number)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    assert heard == ["left", number]

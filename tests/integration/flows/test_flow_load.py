"""Many runs at once: a small pool serves them all, a slow source holds up nobody."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection

from agents import models
from agents.flows.definition.archive import FlowFiles
from agents.flows.runs.start import RunRequest, arun_flow
from agents.flows.versions.versions import activate_version, save_flow_version
from rag.core.access import Scope
from rag.core.hits import Hit
from rag.core.options import option
from rag.core.plugins import PLUGINS
from rag.core.sources import SourceQuery, SourceResult
from tests.factories import FileFactory, StoreFactory, publish
from tests.integration.flow_world import house as house
from tests.integration.flow_world import run_flow

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("house")]
OPERATOR = Scope.operator()
N_RUNS, POOL_SIZE = 50, 2
FLOW = """\
name: busy
nodes:
  - name: find
    type: rag
    config: {data_sources: [{type: vector_store, name: docs, collection: docs}]}
  - {name: answer, type: agent, config: {prompt: answer.md}}
edges: [{from: find, to: answer}, {from: answer, to: END}]
entry_node: find
"""
PROMPTS = {"answer.md": "Answer from: {rag_context}"}
SLEEPY = """\
name: sleepy
nodes:
  - name: find
    type: rag
    config:
      data_sources: [SOURCES]
edges: [{from: find, to: END}]
entry_node: find
"""


@pytest.fixture
def small_pool() -> Iterator[None]:
    pool = connection.settings_dict["OPTIONS"]["pool"]
    usual = pool["max_size"]
    _use_pool(pool, POOL_SIZE)
    yield
    _use_pool(pool, usual)


def _use_pool(pool: dict[str, Any], size: int) -> None:
    connection.close()
    connection.close_pool()
    pool["max_size"] = size


class NapSource:
    """Sleeps and answers, or fails."""

    name = "nap"
    label = "Nap"

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        seconds: float = option(0.2)
        is_broken: bool = option(False)

    def __init__(self, options: Options) -> None:
        self._options = options

    def retrieve(self, query: SourceQuery) -> SourceResult:
        time.sleep(self._options.seconds)
        if self._options.is_broken:
            raise ZeroDivisionError
        return SourceResult((Hit(text="slept", rank=1, source="nap"),))


@pytest.fixture
def nap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLUGINS._found["source"], "nap", NapSource)


def flow_of(text: str, prompts: dict[str, str] | None = None) -> models.Flow:
    version = save_flow_version(files=FlowFiles(text, prompts or {}), scope=OPERATOR)
    activate_version(version=version, scope=OPERATOR)
    return version.flow


def test_fifty_runs_need_no_more_than_two_connections(tmp_path: Path, small_pool: None) -> None:
    file = FileFactory(store=StoreFactory(name="docs"))
    publish(file, "the pump stops", "the valve is blue", gap=17)
    script = tmp_path / "s.yaml"
    script.write_text(
        "answers: [{contains: Answer, answer: it stops, delay_s: 1}]", encoding="utf-8"
    )
    request = RunRequest(
        flow=flow_of(FLOW, PROMPTS),
        scope=OPERATOR,
        message="pump stops",
        model=f"scripted:{script}",
    )

    async def all_at_once() -> list[models.FlowRun]:
        return await asyncio.gather(*(arun_flow(request=request) for _ in range(N_RUNS)))

    started = time.monotonic()
    runs = async_to_sync(all_at_once)()
    print("seconds", time.monotonic() - started)
    assert [run.error for run in runs] == [None] * N_RUNS
    assert {run.status for run in runs} == {"done"}
    assert all(run.state["query_context"]["counts"] == {"docs": 2} for run in runs)


def test_five_sources_take_as_long_as_one(nap: None) -> None:
    sources = ", ".join(f"{{type: nap, name: s{n}}}" for n in range(5))
    flow = flow_of(SLEEPY.replace("SOURCES", sources))
    request = RunRequest(flow=flow, scope=OPERATOR, message="hello")
    run_flow(request=request)
    run = run_flow(request=request)
    node = run.events.get(kind="node_finished")
    print(node.data)
    assert run.state["query_context"]["result_count"] == 5
    assert node.data["duration_ms"] < 900


def test_a_slow_and_a_broken_source_cost_the_others_nothing(nap: None) -> None:
    flow = flow_of(
        SLEEPY.replace(
            "SOURCES",
            (
                "{type: nap, name: quick, seconds: 0.01}, {type: nap, name: slow, seconds: 9, timeout: 0.5}, "
                "{type: nap, name: broken, is_broken: true}"
            ),
        )
    )
    run = run_flow(request=RunRequest(flow=flow, scope=OPERATOR, message="hello"))
    context = run.state["query_context"]
    assert run.status == "done"
    assert context["counts"] == {"quick": 1, "slow": 0, "broken": 0}
    assert sorted(context["errors"]) == ["broken", "slow"]
    assert "did not answer within 0.5 s" in context["errors"]["slow"]
    assert context["durations_ms"]["quick"] < 400
    assert run.events.get(kind="node_finished").data["duration_ms"] < 2000


def test_a_source_that_must_not_fail_ends_the_run_and_says_which(nap: None) -> None:
    flow = flow_of(
        SLEEPY.replace("SOURCES", "{type: nap, name: must, is_broken: true, on_error: fail}")
    )
    run = run_flow(request=RunRequest(flow=flow, scope=OPERATOR, message="hello"))
    assert run.status == "error"
    assert run.error["params"]["name"] == "must"
    assert run.events.order_by("-seq").values_list("kind", flat=True)[1] == "node_failed"

"""Flows benchmark: overhead of a run beside its models.

Run ``python -m benchmarks.flows``. Works in a database of its own and drops it.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.scratch import scratch_database

# isort: split
# Django is set up by now, so that models can be imported.
from dataclasses import dataclass

from asgiref.sync import async_to_sync
from pydantic import BaseModel

from agents import models
from agents.core.nodes import Pause, node_configs, register_node
from agents.core.state import pack_update, to_storable
from agents.flows.definition.archive import FlowFiles
from agents.flows.definition.definition import parse_flow
from agents.flows.definition.state import initial_state
from agents.flows.engine.graph import FlowGraph, GraphBuilder
from agents.flows.runs.run_traces import cut_trace
from agents.flows.runs.start import RunRequest, arun_flow
from agents.flows.versions.versions import activate_version, save_flow_version
from benchmarks.record import Report
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.hits import Hit
from rag.core.options import option
from rag.core.plugins import register
from rag.core.sources import SourceQuery, SourceResult

N_NODES, N_RUNS, N_SOURCES = 50, 200, 5
OPERATOR = Scope.operator()


class _Nothing(BaseModel):
    pass


@register_node
class EmptyNode:
    """Does nothing, so that what remains is the engine."""

    name = "empty"
    label = "Empty"
    Config = _Nothing

    async def run(self, state: Mapping[str, Any], config: Any, run: Any) -> dict[str, Any]:
        """Set one variable."""
        return {"edges_var": {"x": 1}}


@register("source")
class NapSource:
    """Sleeps and answers."""

    name = "nap"
    label = "Nap"

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """How long."""

        seconds: float = option(0.2)

    def __init__(self, options: Options) -> None:
        self._options = options

    def retrieve(self, query: SourceQuery) -> SourceResult:
        """Return one hit."""
        time.sleep(self._options.seconds)
        return SourceResult((Hit(text="slept", rank=1, source="nap"),))


class _Lent:
    """What an empty node is lent."""

    deadline = Deadline(60)


class _SilentLog:
    """A log that keeps nothing."""

    def recorded(self, node: str, visit: int) -> None:
        return None

    def node_run(self, node: str, visit: int) -> Any:
        return _Lent()

    async def started(self, node: str, visit: int) -> None: ...

    async def finished(self, node: str, visit: int, update: Mapping[str, Any]) -> None: ...

    async def routed(self, node: str, visit: int, route: Mapping[str, Any], tests: Any) -> None: ...

    async def paused(self, node: str, visit: int, pause: Pause) -> None: ...

    async def failed(self, node: str, visit: int) -> None: ...


class _WritingLog(_SilentLog):
    """A log that makes of each event what a row of it holds, and stores none."""

    async def started(self, node: str, visit: int) -> None:
        """Write the event."""
        _row("node_started", {"visit": visit})

    async def finished(self, node: str, visit: int, update: Mapping[str, Any]) -> None:
        """Write the event and the update."""
        _row("node_finished", {"visit": visit, "variables": update.get("edges_var")}, update)

    async def routed(self, node: str, visit: int, route: Mapping[str, Any], tests: Any) -> None:
        """Write the edge and the conditions with their values."""
        _row("route", route, None, {"tests": list(tests)})


def _row(kind: str, data: Any, record: Any = None, trace: Any = None) -> models.RunEvent:
    row = models.RunEvent(kind=kind, node="n", visit=1, data=to_storable(data))
    if record is not None:
        row.record = json.dumps(pack_update(to_storable(record)), ensure_ascii=False)
    if trace is not None:
        row.trace = json.dumps(to_storable(cut_trace(trace)), ensure_ascii=False)
    return row


def main() -> int:
    """Measure everything and return the exit status: 1 after an error, not after a missed goal."""
    report = Report("flows")
    measure_engine(report)
    with TemporaryDirectory(prefix="citable-bench-") as folder, scratch_database():
        measure_sources(report)
        measure_runs(report, Path(folder))
    report.save()
    return 0


def measure_engine(report: Report) -> None:
    """Compile and run a chain of empty nodes; figures are CPU times, medians of 20."""
    flow = parse_flow(chain(N_NODES), node_configs())
    compiled, ran = [], []
    for _ in range(20):
        started = time.process_time()
        graph = GraphBuilder(flow).build()
        compiled.append(time.process_time() - started)
        ran.append(_cpu_of(graph))
    report.add(f"compile {N_NODES} nodes, ms", statistics.median(compiled) * 1e3, most=30)
    report.add("CPU a node, no database, ms", statistics.median(ran) / N_NODES * 1e3, most=0.2)
    choosing = GraphBuilder(parse_flow(chain(N_NODES, condition="x >= 1"), node_configs())).build()
    ran = [_cpu_of(choosing, _WritingLog()) for _ in range(20)]
    cpu = statistics.median(ran) / N_NODES * 1e3
    report.add("CPU a node, a condition, all that is recorded as JSON, ms", cpu, most=0.2)


def measure_sources(report: Report) -> None:
    """Ask five sources of 200 ms at once; the time is that of the node, median of 10."""
    sources = [{"type": "nap", "name": f"s{n}"} for n in range(N_SOURCES)]
    node = {"name": "find", "type": "rag", "config": {"data_sources": sources}}
    text = json.dumps(
        {
            "name": "sources",
            "nodes": [node],
            "entry_node": "find",
            "edges": [{"from": "find", "to": "END"}],
        }
    )
    request = RunRequest(flow=_flow(text, {}), scope=OPERATOR, message="hello")
    async_to_sync(arun_flow)(request=request)
    times = []
    for _ in range(10):
        run = async_to_sync(arun_flow)(request=request)
        times.append(run.events.get(kind="node_finished").data["duration_ms"])
    report.add(f"{N_SOURCES} sources of 200 ms at once, ms", statistics.median(times), most=300)


def measure_runs(report: Report, folder: Path) -> None:
    """Run 200 flows of three model calls at once on the usual pool of eight connections."""
    script = folder / "script.yaml"
    script.write_text("answers: [{contains: say, answer: well then, delay_s: 1}]", encoding="utf-8")
    nodes = [{"name": f"n{n}", "type": "agent", "config": {"prompt": "p.md"}} for n in range(3)]
    edges = [{"from": f"n{n}", "to": f"n{n + 1}" if n < 2 else "END"} for n in range(3)]
    text = json.dumps({"name": "talk", "nodes": nodes, "edges": edges, "entry_node": "n0"})
    request = RunRequest(
        flow=_flow(text, {"p.md": "say something"}),
        scope=OPERATOR,
        message="hello",
        model=f"scripted:{script}",
    )

    async def run_all() -> list[models.FlowRun]:
        return await asyncio.gather(*(arun_flow(request=request) for _ in range(N_RUNS)))

    async_to_sync(arun_flow)(request=request)
    started, cpu = time.perf_counter(), time.process_time()
    runs = async_to_sync(run_all)()
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    n_events = models.RunEvent.objects.filter(run__in=runs).count()
    report.add(f"{N_RUNS} runs at once, failed", sum(run.status != "done" for run in runs), most=0)
    report.add(f"{N_RUNS} runs of 3 × 1 s at once, s", wall)
    report.add("CPU an event with its row, ms", cpu / n_events * 1e3)


def chain(n: int, condition: str = "always") -> str:
    """Return the YAML of a flow of ``n`` empty nodes in a row."""
    nodes = [{"name": f"n{i}", "type": "empty"} for i in range(n)]
    edges = [
        {"from": f"n{i}", "to": f"n{i + 1}" if i + 1 < n else "END", "condition": condition}
        for i in range(n)
    ]
    return json.dumps({"name": "chain", "nodes": nodes, "edges": edges, "entry_node": "n0"})


def _cpu_of(graph: FlowGraph, log: _SilentLog | None = None) -> float:
    state = initial_state(graph.flow.definition, "hello")
    started = time.process_time()
    asyncio.run(graph.run(state, log or _SilentLog()))
    return time.process_time() - started


def _flow(text: str, prompts: dict[str, str]) -> models.Flow:
    version = save_flow_version(files=FlowFiles(text, prompts), scope=OPERATOR)
    activate_version(version=version, scope=OPERATOR)
    return version.flow


if __name__ == "__main__":
    sys.exit(main())

"""Flow worker: executes one leased run in this process, writes its events and its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from django.utils import timezone
from django.utils.translation import gettext_noop

from agents import models
from agents.flows.runs.event_log import RunEventLog
from agents.flows.runs.graph_log import GraphLog
from agents.flows.runs.lease import release_lease
from agents.flows.versions.load import compiled_graph
from agents.runtime.lease import close
from agents.runtime.scopes import run_scope
from agents.runtime.worker import Worker
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.services.threads import run_thread_sensitive

if TYPE_CHECKING:
    from agents.flows.engine.graph import FlowGraph

_STATUS = models.FlowRun.Status


def run_started(run: models.FlowRun) -> dict[str, Any]:
    """Return what the first event tells: which run of what it is."""
    version = run.version
    return {"run": str(run.key), "flow": version.flow.name, "version": version.number}


def run_finished(
    kind: str, status: str, log: RunEventLog, values: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the last event tells and what the run's row keeps."""
    row = {
        "status": status,
        "reviews": [],
        "n_steps": log.n_steps,
        "input_tokens": log.input_tokens,
        "output_tokens": log.output_tokens,
        "ended_at": None if kind == "paused" else timezone.now(),
        **values,
    }
    if kind == "paused":
        return {"reviews": values["reviews"]}, row
    if kind == "done":
        turns = values["state"].get("flow_msgs") or [{}]
        variables = values["state"].get("edges_var") or {}
        return {"answer": turns[-1].get("content", ""), "variables": variables}, row
    return dict(values), row


class FlowWorker(Worker):
    """One flow run at work, on the event loop that made it."""

    active: ClassVar[dict[int, FlowWorker]] = {}
    log: RunEventLog
    name = "flow run"
    fault = gettext_noop("The flow has a fault ({kind}).")

    def __init__(self, run: models.FlowRun) -> None:
        self.run, self.log = run, RunEventLog(run)
        self._deadline: Deadline | None = None
        super().__init__(run)

    async def execute(self) -> None:
        """Run the graph from where it stands to its end or to a review."""
        graph, scope = await run_thread_sensitive(self._prepare)
        self._deadline = Deadline(graph.flow.definition.timeout_s)
        kind = "continued" if self.log.live.seq else "run_started"
        await self.log.append(kind, data=run_started(self.run))
        log = GraphLog(self.log, scope, self._deadline)
        end = await graph.run(self.run.start, log)
        if end.paused:
            await self._end("paused", _STATUS.PAUSED, state=end.state, reviews=log.reviews)
        else:
            await self._end("done", _STATUS.DONE, state=end.state)

    async def failed(self, error: dict[str, Any], code: str) -> None:
        """Write that the run has failed: it can be tried again from there."""
        await self._end("error", _STATUS.ERROR, error={**error, "code": code})

    async def cancelled(self) -> None:
        """Write that the run was cancelled."""
        await self._end("cancelled", _STATUS.CANCELLED)

    async def interrupted(self) -> None:
        """Leave the run as it stands to another process."""
        await run_thread_sensitive(release_lease, run=self.run)

    def on_lost(self, status: str | None) -> None:
        """Stop: another process cancelled the run, or has taken it."""
        self._is_cancelled = self._is_cancelled or status == _STATUS.CANCELLED
        self.stop_here()

    def stop_here(self) -> None:
        """Stop the run and what its nodes wait for."""
        if self._deadline:
            self._deadline.cancel()
        super().stop_here()

    def _prepare(self) -> tuple[FlowGraph, Scope]:
        self.log.load()
        return compiled_graph(version=self.run.version), run_scope(run=self.run)

    async def _end(self, kind: str, status: str, **values: Any) -> None:
        """Write the row and the last event in one transaction; nothing if the run was lost."""
        data, row = run_finished(kind, status, self.log, values)
        await self.log.append(kind, data=data, guard=partial(close, self.run, row))

"""Flow worker: executes one leased run in this process, writes its events and its outcome.

A run whose process ends is left to another one, which goes on behind its finished nodes.
"""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from django.utils import timezone
from django.utils.translation import gettext_noop

from agents import models
from agents.core.chat_events import FlowEvent
from agents.flows.runs.event_log import RunEventLog, stored_run_events
from agents.flows.runs.lease import acquire_lease, release_lease
from agents.flows.versions.load import compiled_graph
from agents.runtime.scopes import run_scope
from agents.runtime.worker import Worker, close_lease
from rag.core.deadline import Deadline
from rag.core.errors import ConflictError
from rag.services.threads import run_thread_sensitive

if TYPE_CHECKING:
    from agents.flows.engine.graph import FlowGraph

RELEASE_S = 5.0
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


class FlowWorker(Worker[FlowEvent]):
    """One flow run at work, on the event loop that made it."""

    active: ClassVar[dict[int, FlowWorker]] = {}
    log: RunEventLog
    name = "flow run"
    fault = gettext_noop("The flow has a fault ({kind}).")
    poll_s = 0.5
    is_read_first = True
    stored_events = staticmethod(stored_run_events)

    def __init__(self, run: models.FlowRun) -> None:
        self.run, self.log = run, RunEventLog(run)
        self._deadline: Deadline | None = None
        super().__init__(run)

    async def execute(self) -> None:
        """Run the graph from where it stands to its end or to a review."""
        graph = await run_thread_sensitive(self._prepare)
        self._deadline = self.log.deadline = Deadline(graph.flow.definition.timeout_s)
        kind = "continued" if self.log.seq else "run_started"
        await self.log.append(kind, data=run_started(self.run))
        end = await graph.run(self.run.start, self.log)
        if end.paused:
            await self._end("paused", _STATUS.PAUSED, state=end.state, reviews=self.log.reviews)
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

    def stop_here(self) -> None:
        """Stop the run and what its nodes wait for."""
        if self._deadline:
            self._deadline.cancel()
        super().stop_here()

    def _prepare(self) -> FlowGraph:
        self.log.load()
        self.log.scope = run_scope(run=self.run)
        return compiled_graph(version=self.run.version)

    async def _end(self, kind: str, status: str, **values: Any) -> None:
        """Write the row and the last event in one transaction; nothing if the run was lost."""
        data, row = run_finished(kind, status, self.log, values)
        await self.log.append(kind, data=data, guard=partial(close_lease, self.run, row))


async def run_in_background(*, run: models.FlowRun) -> None:
    """Let a run go on in this process while the caller does something else.

    Raises ConflictError while it is at work elsewhere.
    """
    worker = FlowWorker(await run_thread_sensitive(acquire_lease, run=run))
    worker.start(contextvars.Context())


async def run_to_end(*, run: models.FlowRun) -> models.FlowRun:
    """Work a run off from where it stands and return it; finished nodes are not repeated."""
    await FlowWorker(await run_thread_sensitive(acquire_lease, run=run)).work()
    rows = models.FlowRun.objects.select_related("version__flow")
    return await run_thread_sensitive(rows.get, pk=run.pk)


async def resume_abandoned(*, run_id: int) -> bool:
    """Let a run go on in this process; return False when it needs nobody any more.

    It goes on beside the caller's next jobs: a run mostly waits for its models.
    """
    running = models.FlowRun.objects.filter(pk=run_id, status=_STATUS.RUNNING)
    run = await run_thread_sensitive(running.first)
    if run is None:
        return False
    try:
        await run_in_background(run=run)
    except ConflictError:
        return False
    return True


def release_all() -> None:
    """Give up all runs of this process as they stand, from any thread; others go on with them."""
    for worker in list(FlowWorker.active.values()):
        worker.stop(is_cancelled=False)


async def release_all_and_wait() -> None:
    """Do what ``release_all`` does and return when it is done, after five seconds at latest."""
    release_all()
    await FlowWorker.stopped(RELEASE_S)

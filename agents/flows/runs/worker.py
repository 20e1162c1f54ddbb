"""Flow worker: leases a run, executes it in this process, writes its events and its outcome.

A run whose process ends is left to a queue job, which goes on behind its finished nodes.
"""

from __future__ import annotations

import contextvars
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_noop

from agents import models
from agents.core.chat_events import FlowEvent
from agents.core.cited_answers import serialize_sources
from agents.core.state import to_storable
from agents.flows.definition.state import user_query
from agents.flows.runs.event_log import RunEventLog, stored_run_events
from agents.flows.runs.flow_exposure import flow_exposure
from agents.flows.versions.load import compiled_graph
from agents.runtime.memories import keep_exchange
from agents.runtime.outbound import check_exposure
from agents.runtime.scopes import run_scope
from agents.runtime.worker import (
    Worker,
    abandoned,
    close_lease,
    enqueue_takeover,
    is_expired,
    new_lease,
)
from rag.core.deadline import Deadline
from rag.core.errors import ConflictError, RAGError
from rag.services.threads import run_thread_sensitive

if TYPE_CHECKING:
    from agents.flows.engine.graph import FlowGraph


RELEASE_S = 5.0
log = logging.getLogger(__name__)
_STATUS = models.FlowRun.Status


def acquire_lease(*, run: models.FlowRun) -> models.FlowRun:
    """Return the run as this caller's own; raise ConflictError while another works on it.

    Only runs that are running, or failed and are tried again, can be acquired.
    """
    is_free = Q(status=_STATUS.RUNNING) & (Q(worker=None) | is_expired())
    rows = models.FlowRun.objects.filter(is_free | Q(status=_STATUS.ERROR), pk=run.pk)
    if not rows.update(**new_lease(), status=_STATUS.RUNNING, error=None, ended_at=None):
        raise ConflictError("The run is at work already, or has ended.", hint="Look at its status.")
    joined = models.FlowRun.objects.select_related("version__flow", "user", "replay_of")
    return joined.get(pk=run.pk)


def release_lease(*, run: models.FlowRun) -> None:
    """Give a run up as it stands, for another process to go on with; nothing if it has one."""
    with transaction.atomic():
        if close_lease(run, {"status": _STATUS.RUNNING}):
            enqueue_run(run_id=run.pk)


def enqueue_run(*, run_id: int) -> None:
    """Queue a job that goes on with a run; one that waits already is enough."""
    enqueue_takeover(task="agents.adopt_run", lock=f"agents.run.{run_id}", run_id=run_id)


def enqueue_abandoned_runs() -> int:
    """Queue one job per run that is running, but whose lease has expired; return how many."""
    ids = list(abandoned(models.FlowRun).values_list("pk", flat=True))
    for run_id in ids:
        enqueue_run(run_id=run_id)
    return len(ids)


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
        version = self.run.version
        told = {"run": str(self.run.key), "flow": version.flow.name, "version": version.number}
        # What was granted at the start may have been withdrawn, or another host may be called.
        hosts = await run_thread_sensitive(self._checked_hosts, graph)
        told |= {"outbound": hosts} if hosts else {}
        await self.log.append(kind, data=told)
        end = await graph.run(self.run.start, self.log)
        if end.paused:
            await self._end("paused", _STATUS.PAUSED, state=end.state, reviews=self.log.reviews)
        else:
            answer = await self._end("done", _STATUS.DONE, state=end.state)
            await self._remember(graph.flow.definition.memory, answer)

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

    def _checked_hosts(self, graph: FlowGraph) -> list[str]:
        flow = self.run.version.flow
        exposure = flow_exposure(
            flow=flow,
            definition=graph.flow,
            scope=self.log.scope,
            chunk_ids=self.run.chunk_ids,
        )
        check_exposure(subject=flow, exposure=exposure)
        return exposure.marked_hosts

    def _prepare(self) -> FlowGraph:
        self.log.load()
        self.log.scope = run_scope(run=self.run)
        return compiled_graph(version=self.run.version)

    async def _remember(self, project: str, answer: str) -> None:
        """Keep the exchange for runs that come; what fails breaks nothing that is done."""
        if not project or not answer:
            return
        found = {pk for one in self.log.passages.all for pk in one.hit.chunk_ids}
        try:
            await keep_exchange(
                question=user_query(self.run.start),
                answer=answer,
                scope=self.log.scope,
                project=project,
                chunk_ids={*self.run.chunk_ids, *found},
            )
        except RAGError as error:
            log.warning("A run is not remembered: %s", error)

    async def _end(self, kind: str, status: str, **values: Any) -> str:
        """Write the row and the last event in one transaction; nothing if the run was lost.

        Return what the run answers.
        """
        is_paused = kind == "paused"
        row = {
            "status": status,
            "reviews": [],
            "passages": to_storable({"found": serialize_sources(self.log.passages.all)})["found"],
            "n_steps": self.log.n_steps,
            "input_tokens": self.log.input_tokens,
            "output_tokens": self.log.output_tokens,
            "ended_at": None if is_paused else timezone.now(),
            **values,
        }
        data = {"reviews": values["reviews"]} if is_paused else values
        if kind == "done":
            answer = to_storable(self.log.answer(values["state"]))
            row |= answer
            data = {**answer, "variables": values["state"].get("edges_var") or {}}
        await self.log.append_last(kind, data, partial(close_lease, self.run, row))
        return str(row.get("answer") or "")


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

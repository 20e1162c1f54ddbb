"""Flow worker: executes one leased run in this process, writes its events and its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from agents import models
from agents.core.flow_events import FlowEvent
from agents.flows.runs.event_log import RunEventLog
from agents.flows.runs.graph_log import GraphLog
from agents.flows.runs.lease import close_run, start_heartbeat, stop_heartbeat
from agents.flows.runs.release import release_lease
from agents.flows.versions.load import compiled_graph
from agents.runtime.error_codes import error_code
from agents.runtime.scopes import run_scope
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import RAGError
from rag.services.threads import run_thread_sensitive

if TYPE_CHECKING:
    from agents.flows.engine.graph import FlowGraph


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


def run_error(error: BaseException) -> dict[str, Any]:
    """Return how an error is told; of one that is no RAGError its kind, and nothing it holds."""
    if isinstance(error, RAGError):
        return {**error.as_dict(), "code": error_code(error)}
    fault = RAGError(
        "The flow has a fault ({kind}).",
        hint="The server's log says where.",
        kind=type(error).__name__,
    )
    return {**fault.as_dict(), "code": "internal"}


_STATUS = models.FlowRun.Status
# The runs that are at work here, for those who follow or cancel them.
ACTIVE_RUNS: dict[int, FlowWorker] = {}


class FlowWorker:
    """One run at work, on the event loop that made it."""

    def __init__(self, run: models.FlowRun) -> None:
        self.run = run
        self._log = RunEventLog(run, self._publish)
        self.followers: list[asyncio.Queue[FlowEvent | None]] = []
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None
        self._deadline: Deadline | None = None
        self._is_cancelled = False
        ACTIVE_RUNS[run.pk] = self

    def follow(self) -> asyncio.Queue[FlowEvent | None] | None:
        """Return a queue of the events from now on, ended by None; nothing for another loop."""
        if asyncio.get_running_loop() is not self._loop:
            return None
        queue: asyncio.Queue[FlowEvent | None] = asyncio.Queue()
        self.followers.append(queue)
        return queue

    def stop(self, *, is_cancelled: bool) -> None:
        """Stop the run, from any thread: it is cancelled, or left to others as it stands."""
        self._loop.call_soon_threadsafe(self._lost, is_cancelled)

    async def work(self) -> models.FlowRun:
        """Return the row when the run is done, paused, failed or cancelled.

        What is no RAGError is a fault of ours: the row says so, and it is raised on.
        """
        self._task = asyncio.current_task()
        start_heartbeat(self.run, self._lost)
        try:
            await self._run()
        except RAGError as error:
            await self._end("error", _STATUS.ERROR, error=run_error(error))
        except asyncio.CancelledError:
            if not self._is_cancelled:
                # The process ends: another one goes on with the run as it stands.
                await run_thread_sensitive(release_lease, run=self.run)
                raise
            asyncio.current_task().uncancel()  # type: ignore[union-attr]
            await self._end("cancelled", _STATUS.CANCELLED)
        except BaseException as error:
            # A fault of ours: who follows is told its kind; the task's end logs it.
            await self._end("error", _STATUS.ERROR, error=run_error(error))
            raise
        finally:
            stop_heartbeat(self.run)
            ACTIVE_RUNS.pop(self.run.pk, None)
            for queue in self.followers:
                queue.put_nowait(None)
        return await run_thread_sensitive(
            models.FlowRun.objects.select_related("version__flow").get, pk=self.run.pk
        )

    async def _run(self) -> None:
        graph, scope = await run_thread_sensitive(self._prepare)
        self._deadline = Deadline(graph.flow.definition.timeout_s)
        kind = "continued" if self._log.n_events else "run_started"
        await self._log.append(kind, data=run_started(self.run))
        log = GraphLog(self._log, scope, self._deadline)
        end = await graph.run(self.run.start, log)
        if end.paused:
            await self._end("paused", _STATUS.PAUSED, state=end.state, reviews=log.reviews)
        else:
            await self._end("done", _STATUS.DONE, state=end.state)

    def _prepare(self) -> tuple[FlowGraph, Scope]:
        self._log.load()
        return compiled_graph(version=self.run.version), run_scope(run=self.run)

    async def _end(self, kind: str, status: str, **values: Any) -> None:
        """Write the row and the last event in one transaction; nothing if the run was lost."""
        data, row = run_finished(kind, status, self._log, values)
        await self._log.append(kind, data=data, guard=partial(close_run, self.run, row))

    def _lost(self, is_cancelled: bool) -> None:
        self._is_cancelled = self._is_cancelled or is_cancelled
        if self._deadline:
            self._deadline.cancel()
        # Once: a second one would reach what the first one is being answered with.
        if self._task and not self._task.done() and not self._task.cancelling():
            self._task.cancel()

    def _publish(self, event: FlowEvent) -> None:
        for queue in self.followers:
            queue.put_nowait(event)

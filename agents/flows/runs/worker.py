"""Works a run off in this process. In: a claimed run. Out: its events, and the row as it ends.

How a run begins and stands when its worker leaves it. In: values. Out: event and row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from agents import models
from agents.core.events import FlowEvent
from agents.flows.runs.claim import finish, keep_alive, let_go
from agents.flows.runs.event_log import EventLog
from agents.flows.runs.graph_log import GraphLog
from agents.flows.runs.release import leave_run
from agents.flows.versions.load import graph_of
from agents.runtime.db import in_db
from agents.runtime.error_codes import error_code
from agents.runtime.scopes import scope_of_run
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import RAGError

if TYPE_CHECKING:
    from agents.flows.engine.graph import FlowGraph


def beginning(run: models.FlowRun) -> dict[str, Any]:
    """Return what the first event tells: which run of what it is."""
    version = run.version
    return {"run": str(run.key), "flow": version.flow.name, "version": version.number}


def ending(
    kind: str, status: str, log: EventLog, values: Mapping[str, Any]
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


def fault_of(error: BaseException) -> dict[str, Any]:
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
AT_WORK: dict[int, Worker] = {}


class Worker:
    """One run at work, on the event loop that made it."""

    def __init__(self, run: models.FlowRun) -> None:
        self.run = run
        self._log = EventLog(run, self._publish)
        self.followers: list[asyncio.Queue[FlowEvent | None]] = []
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None
        self._deadline: Deadline | None = None
        self._is_cancelled = False
        AT_WORK[run.pk] = self

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
        keep_alive(self.run, self._lost)
        try:
            await self._run()
        except RAGError as error:
            await self._end("error", _STATUS.ERROR, error=fault_of(error))
        except asyncio.CancelledError:
            if not self._is_cancelled:
                # The process ends: another one goes on with the run as it stands.
                await in_db(leave_run, run=self.run)
                raise
            asyncio.current_task().uncancel()  # type: ignore[union-attr]
            await self._end("cancelled", _STATUS.CANCELLED)
        except BaseException as error:
            # A fault of ours: who follows is told its kind; the task's end logs it.
            await self._end("error", _STATUS.ERROR, error=fault_of(error))
            raise
        finally:
            let_go(self.run)
            AT_WORK.pop(self.run.pk, None)
            for queue in self.followers:
                queue.put_nowait(None)
        return await in_db(
            models.FlowRun.objects.select_related("version__flow").get, pk=self.run.pk
        )

    async def _run(self) -> None:
        graph, scope = await in_db(self._prepare)
        self._deadline = Deadline(graph.flow.definition.timeout_s)
        kind = "continued" if self._log.n_events else "run_started"
        await self._log.append(kind, data=beginning(self.run))
        log = GraphLog(self._log, scope, self._deadline)
        end = await graph.run(self.run.start, log)
        if end.paused:
            await self._end("paused", _STATUS.PAUSED, state=end.state, reviews=log.reviews)
        else:
            await self._end("done", _STATUS.DONE, state=end.state)

    def _prepare(self) -> tuple[FlowGraph, Scope]:
        self._log.load()
        return graph_of(version=self.run.version), scope_of_run(run=self.run)

    async def _end(self, kind: str, status: str, **values: Any) -> None:
        """Write the row and the last event in one transaction; nothing if the run was lost."""
        told, row = ending(kind, status, self._log, values)
        await self._log.append(kind, data=told, along=partial(finish, self.run, row))

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

"""Worker: executes one leased run in this process, to be cancelled from any thread."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from agents.runtime.error_codes import error_code
from agents.runtime.event_log import EventLog, LiveEvents
from agents.runtime.lease import Held, LeasedRow, start_heartbeat, stop_heartbeat
from rag.core.errors import RAGError

logger = logging.getLogger(__name__)
_TASKS: dict[asyncio.Task[Any], Worker] = {}


def error_payload(error: BaseException, fault: str) -> tuple[dict[str, Any], str]:
    """Return an error as JSON and its code; of one that is no RAGError ``fault`` and its kind."""
    if isinstance(error, RAGError):
        return error.as_dict(), error_code(error)
    hint = "The server's log says where."
    return RAGError(fault, hint=hint, kind=type(error).__name__).as_dict(), "internal"


class Worker(ABC):
    """One run at work, on the event loop that made it; ``active`` are those of this process.

    ``name`` is what logs call it, ``fault`` what people are told of a fault of ours.
    """

    active: ClassVar[dict[int, Any]]
    name: ClassVar[str]
    fault: ClassVar[str]
    log: EventLog[Any]

    def __init__(self, row: LeasedRow, key_id: int | None = None) -> None:
        self._held = Held(row, self.on_lost, key_id)
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = self._is_stopping = False
        self.active[row.pk] = self

    @abstractmethod
    async def execute(self) -> None:
        """Do the work up to its end."""

    @abstractmethod
    async def failed(self, error: dict[str, Any], code: str) -> None:
        """Write that the run has failed; the error is JSON."""

    @abstractmethod
    async def cancelled(self) -> None:
        """Write that the run was cancelled."""

    @abstractmethod
    async def interrupted(self) -> None:
        """Give the run up, for the process ends."""

    @abstractmethod
    def on_lost(self, status: str | None) -> None:
        """Stop: somebody else wrote another status, or (None) took the run."""

    def stop(self, *, is_cancelled: bool = True) -> None:
        """Stop the run, from any thread: it is cancelled, or left to others as it stands."""
        self._is_cancelled = self._is_cancelled or is_cancelled
        self._loop.call_soon_threadsafe(self.stop_here)

    def stop_here(self) -> None:
        """Stop the run, on its own loop."""
        # Once: a second one would reach what the first one is being answered with.
        if not self._is_stopping and self._task:
            self._task.cancel()
        self._is_stopping = True

    async def work(self) -> None:
        """Work the run off; what failed stands in its row.

        What is no RAGError is a fault of ours: the row says so, and it is raised on.
        """
        self._task = asyncio.current_task()
        if self._is_stopping and self._task:
            self._task.cancel()
        start_heartbeat(self._held)
        try:
            await self.execute()
        except RAGError as error:
            await self.failed(*error_payload(error, self.fault))
        except asyncio.CancelledError:
            if not self._is_cancelled:
                await self.interrupted()
                raise
            asyncio.current_task().uncancel()  # type: ignore[union-attr]
            await self.cancelled()
        except BaseException as error:
            # A fault of ours: who follows is told its kind; the task's end logs it.
            await self.failed(*error_payload(error, self.fault))
            raise
        finally:
            self._task = None
            stop_heartbeat(self._held.row)
            self.active.pop(self._held.row.pk, None)
            self.log.live.close()

    def start(self, context: contextvars.Context) -> asyncio.Task[Any]:
        """Let the run go on in a task of its own.

        ``context`` is not the request's: its threads end before the run may.
        """
        task = asyncio.create_task(self.work(), context=context)
        _TASKS[task] = self
        task.add_done_callback(_log_fault)
        return task

    @classmethod
    def find_live(cls, pk: int) -> LiveEvents[Any] | None:
        """Return the live events of a run that is at work in this process."""
        worker = cls.active.get(pk)
        return worker.log.live if worker else None

    @classmethod
    async def stopped(cls, timeout_s: float) -> None:
        """Return when no run of this kind is at work in a task of its own, or the time is over."""
        if tasks := [task for task, worker in _TASKS.items() if isinstance(worker, cls)]:
            await asyncio.wait(tasks, timeout=timeout_s)


def _log_fault(task: asyncio.Task[Any]) -> None:
    worker = _TASKS.pop(task)
    if not task.cancelled() and (fault := task.exception()) is not None:
        logger.error("the %s %s has a fault", worker.name, worker._held.row.key, exc_info=fault)

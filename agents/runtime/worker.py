"""Worker: one long run at work in this process, with its lease, heartbeat, event log and replay.

A run is a row with ``status``, ``worker`` and ``seen_at``: a flow run or an answer. One process
owns it while its heartbeat is fresh; any thread may cancel it and any process follow it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from django.db import Error, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from procrastinate.contrib.django import app
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.exceptions import AlreadyEnqueued
from procrastinate.jobs import JobDeferrer
from procrastinate.manager import JobManager

from agents import models
from rag.core.errors import RAGError
from rag.services.access import is_live_key
from rag.services.outages import outage_of
from rag.services.threads import run_thread_sensitive

LeasedRow = models.FlowRun | models.Message
Guard = Callable[[], bool] | None
HEARTBEAT_S = 2.0
# So many seconds without a heartbeat end a lease.
LEASE_S = 20.0
RUNNING, STOPPED = models.Message.Status.RUNNING.value, models.Message.Status.STOPPED.value
CANCELLED = models.FlowRun.Status.CANCELLED.value
logger = logging.getLogger(__name__)


def new_lease() -> dict[str, Any]:
    """Return the columns of a lease that begins now."""
    return {"worker": uuid.uuid4(), "seen_at": timezone.now()}


def is_expired() -> Q:
    """Return the condition that nobody has given a heartbeat for longer than a lease lasts."""
    late = timezone.now() - timedelta(seconds=LEASE_S)
    return Q(seen_at=None) | Q(seen_at__lt=late)


def abandoned(table: type[LeasedRow]) -> QuerySet[Any]:
    """Return the rows that are running and whose lease has expired."""
    return table._default_manager.filter(is_expired(), status=RUNNING)


def close_lease(row: LeasedRow, values: Mapping[str, Any]) -> bool:
    """Write the outcome of a run and end its lease; return False when the lease was lost."""
    mine = type(row)._default_manager.filter(pk=row.pk, worker=row.worker)
    if values.get("status") != CANCELLED:
        mine = mine.exclude(status=CANCELLED)
    return bool(mine.update(worker=None, seen_at=None, **values))


def renew_leases(held: Mapping[LeasedRow, int | None]) -> dict[LeasedRow, str]:
    """Renew leases of rows with their key's id; return the status of each that is still one's own.

    A row whose key lets nobody in any more is stopped. A database that cannot be asked takes no
    lease away: only a longer silence does.
    """
    try:
        standing: dict[LeasedRow, str] = {}
        for table in {type(row) for row in held}:
            rows = {row.pk: row for row in held if type(row) is table}
            workers = [row.worker for row in rows.values()]
            mine = table._default_manager.filter(pk__in=rows, worker__in=workers)
            mine.filter(status=RUNNING).update(seen_at=timezone.now())
            standing |= {rows[pk]: status for pk, status in mine.values_list("pk", "status")}
        for row, key_id in held.items():
            if key_id is not None and not is_live_key(key_id=key_id):
                standing[row] = STOPPED
    except Error as error:
        logger.warning("no lease was renewed: %s", type(error).__name__)
        return dict.fromkeys(held, RUNNING)
    return standing


# On Django's connection: a queue worker that ends has closed its own when it leaves its runs.
_JOBS = JobManager(DjangoConnector())


def enqueue_takeover(*, task: str, lock: str, **arguments: int) -> None:
    """Queue a job that goes on with a run; one that waits already is enough."""
    job = app.configure_task(task, queueing_lock=lock).job
    with suppress(AlreadyEnqueued), transaction.atomic():
        JobDeferrer(job_manager=_JOBS, job=job).defer(**arguments)


class Event(Protocol):
    """What happened; ``seq`` counts from 1 within its run and is the id to go on after."""

    @property
    def seq(self) -> int:
        """Return its number."""

    @property
    def kind(self) -> str:
        """Return what happened."""


E = TypeVar("E", bound=Event)


class EventLog(Generic[E]):
    """The events of a run while it is at work. For the event loop that made it."""

    def __init__(self) -> None:
        self.seq = 0
        # One write at a time: the next one begins behind its last number.
        self.lock = asyncio.Lock()
        self._first = 0
        self._events: list[E] = []
        self._changed = asyncio.Event()
        self._is_ended = False

    def start_after(self, seq: int) -> None:
        """Go on behind the events that are stored already."""
        self.seq = self._first = seq

    def publish(self, event: E) -> None:
        """Publish an event to all who follow."""
        self._events.append(event)
        self.seq = event.seq
        self._wake()

    def end(self) -> None:
        """Let those who follow go: there will be no more."""
        self._is_ended = True
        self._wake()

    def after(self, seq: int) -> list[E]:
        """Return the events with a number above ``seq``."""
        return self._events[max(0, seq - self._first) :]

    async def wait_after(self, seq: int) -> list[E]:
        """Return the events with a number above ``seq`` once there are any; none at the end."""
        while not (events := self.after(seq)) and not self._is_ended:
            await self._changed.wait()
        return events

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Worker(ABC, Generic[E]):
    """One run at work, on the event loop that made it; ``active`` are those of this process.

    ``name`` is what logs call it, ``fault`` what people are told of a fault of ours. With a
    ``key_id`` the run is stopped when that key lets nobody in any more.
    """

    active: ClassVar[dict[int, Any]]
    name: ClassVar[str]
    fault: ClassVar[str]
    # How often a run of another process is looked at, and after which events nothing comes.
    poll_s: ClassVar[float]
    last_kinds: ClassVar[frozenset[str]] = frozenset()
    # Whether a log begins in the middle of a run, so that its past is read first.
    is_read_first: ClassVar[bool] = False
    log: EventLog[E]

    def __init__(self, row: LeasedRow, key_id: int | None = None) -> None:
        self.row, self.key_id = row, key_id
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

    @classmethod
    @abstractmethod
    def stored_events(cls, pk: int, after: int, /) -> tuple[bool, list[E]]:
        """Return whether a run is at work, and then its stored events above a number."""

    @classmethod
    def stop_local(cls, pk: int) -> bool:
        """Cancel a run, from any thread; return False when it is not at work in this process."""
        worker = cls.active.get(pk)
        if worker is not None:
            worker.stop()
        return worker is not None

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

    def lost(self, status: str | None) -> None:
        """Stop: somebody else wrote another status, or (None) took the run."""
        self._is_cancelled = self._is_cancelled or status in (CANCELLED, STOPPED)
        self.stop_here()

    async def work(self) -> None:
        """Work the run off; what failed stands in its row.

        What is no RAGError is a fault of ours: the row says so, and it is raised on.
        """
        self._task = asyncio.current_task()
        if self._is_stopping and self._task:
            self._task.cancel()
        _start_heartbeat(self)
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
            _stop_heartbeat(self)
            self.active.pop(self.row.pk, None)
            self.log.end()

    def start(self, context: contextvars.Context) -> None:
        """Let the run go on in a task of its own.

        ``context`` is not the request's: its threads end before the run may.
        """
        task = asyncio.create_task(self.work(), context=context)
        _TASKS[task] = self
        task.add_done_callback(_log_fault)

    @classmethod
    async def stopped(cls, timeout_s: float) -> None:
        """Return when no run of this kind is at work in a task of its own, or the time is over."""
        if tasks := [task for task, worker in _TASKS.items() if isinstance(worker, cls)]:
            await asyncio.wait(tasks, timeout=timeout_s)

    @classmethod
    async def replay(cls, pk: int, *, after: int = 0) -> AsyncGenerator[E, None]:
        """Yield the events with a number above ``after``, then new ones until the run stands still.

        A run of another process is followed through the database.
        """
        worker = cls.active.get(pk)
        log: EventLog[E] | None = None
        # On another loop its events cannot be waited for.
        if worker is not None and worker._loop is asyncio.get_running_loop():
            log = worker.log
        is_running, pause_s, events = True, 0.0, list[E]()
        if log and cls.is_read_first:
            _, events = await run_thread_sensitive(cls.stored_events, pk, after)
        while True:
            for event in events:
                yield event
                after = event.seq
                if event.kind in cls.last_kinds:
                    return
            if log:
                if not (events := await log.wait_after(after)):
                    log = None
            elif is_running:
                await asyncio.sleep(pause_s)
                is_running, events = await run_thread_sensitive(cls.stored_events, pk, after)
                pause_s = cls.poll_s
            else:
                return


def error_payload(error: BaseException, fault: str) -> tuple[dict[str, Any], str]:
    """Return an error as JSON and its code; of one that is no RAGError ``fault`` and its kind."""
    told = outage_of(error) or error
    if isinstance(told, RAGError):
        return told.as_dict(), told.code
    hint = "The server's log says where."
    return RAGError(fault, hint=hint, kind=type(error).__name__).as_dict(), "internal"


_TASKS: dict[asyncio.Task[Any], Worker[Any]] = {}
# The workers of each loop, and the one task that renews their leases in a statement per table.
_Heartbeat = tuple[set[Worker[Any]], asyncio.Task[None]]
_HEARTBEATS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Heartbeat] = WeakKeyDictionary()


def _start_heartbeat(worker: Worker[Any]) -> None:
    loop = asyncio.get_running_loop()
    workers, task = _HEARTBEATS.get(loop, (set[Worker[Any]](), None))
    workers.add(worker)
    if task is None or task.done():
        # It beats for others too, after the request is over whose run came first.
        task = loop.create_task(_renew_loop(workers), context=contextvars.Context())
        _HEARTBEATS[loop] = workers, task


def _stop_heartbeat(worker: Worker[Any]) -> None:
    loop = asyncio.get_running_loop()
    workers, task = _HEARTBEATS.get(loop, (set[Worker[Any]](), None))
    workers.discard(worker)
    if task and not workers:
        task.cancel()
        del _HEARTBEATS[loop]


async def _renew_loop(workers: set[Worker[Any]]) -> None:
    while await asyncio.sleep(HEARTBEAT_S, True):
        held = {worker.row: worker.key_id for worker in workers}
        standing = await run_thread_sensitive(renew_leases, held)
        for worker in [one for one in workers if one.row in held]:
            if (status := standing.get(worker.row)) != RUNNING:
                workers.discard(worker)
                worker.lost(status)


def _log_fault(task: asyncio.Task[Any]) -> None:
    worker = _TASKS.pop(task)
    if not task.cancelled() and (fault := task.exception()) is not None:
        logger.error("the %s %s has a fault", worker.name, worker.row.key, exc_info=fault)

"""Event log of a flow run: stores events of many runs together, knows what is done already.

It is what the graph engine writes a run into, and what a run that is continued takes instead of
working again.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from django.db import Error, IntegrityError, transaction
from django.db.models import Sum
from django.db.models.functions import Length
from django.utils import timezone

from agents import models
from agents.core.chat_events import FlowEvent
from agents.core.cited_answers import RunPassages, verdicts_of
from agents.core.nodes import Pause
from agents.core.state import pack_update, to_storable, unpack_update
from agents.flows.definition.state import last_turn, user_query
from agents.flows.engine.inner_log import RunPlace
from agents.flows.runs.node_context import FlowNodeContext
from agents.flows.runs.redact import note_found, redact_ended_run, redact_hits, redactor_of
from agents.flows.runs.run_traces import MAX_RUN_TRACE, cut_trace
from agents.runtime.scopes import run_scope
from agents.runtime.worker import RUNNING, EventLog, Guard
from rag.core import metrics
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.request_context import set_account
from rag.services.threads import retry_db
from rag.stages.citing.verify import AnswerWriter


@dataclass(slots=True)
class _WriteQueue:
    """What waits to be written on one event loop, and who writes it."""

    waiting: list[tuple[models.RunEvent, asyncio.Future[None]]] = field(default_factory=list)
    writer: asyncio.Task[None] | None = None


_QUEUES: WeakKeyDictionary[asyncio.AbstractEventLoop, _WriteQueue] = WeakKeyDictionary()


async def persist_event(row: models.RunEvent) -> None:
    """Return when the row is committed; raise IntegrityError when its number is taken.

    Raises what the database says when it is gone for longer than ``retry_db`` waits.
    """
    loop = asyncio.get_running_loop()
    queue = _QUEUES.setdefault(loop, _WriteQueue())
    future: asyncio.Future[None] = loop.create_future()
    queue.waiting.append((row, future))
    if queue.writer is None or queue.writer.done():
        # It writes for others too, after the request is over whose run came first.
        queue.writer = loop.create_task(_write(queue), context=contextvars.Context())
    await future


async def _write(queue: _WriteQueue) -> None:
    while queue.waiting:
        batch, queue.waiting = queue.waiting, []
        faults: Sequence[Error | None]
        try:
            faults = await retry_db(_save_events, [row for row, _ in batch])
        except Error as error:
            # Others wait by now, whose time is not over.
            faults = [error] * len(batch)
        except BaseException as error:
            # Each of those who wait must hear of it, or would wait for ever.
            for _, future in batch + queue.waiting:
                if not future.done():
                    future.set_exception(error)
            queue.waiting = []
            raise
        for (_, future), fault in zip(batch, faults, strict=True):
            if future.done():
                continue
            if fault is None:
                future.set_result(None)
            else:
                future.set_exception(fault)


def _save_events(rows: list[models.RunEvent]) -> list[IntegrityError | None]:
    try:
        with transaction.atomic():
            models.RunEvent.objects.bulk_create(rows)
    except IntegrityError:
        # One of them was lost to another process; the rest are not.
        return [_saved(row) for row in rows]
    return [None] * len(rows)


def _saved(row: models.RunEvent) -> IntegrityError | None:
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as error:
        # By a commit whose answer was lost: its key was given to this row alone.
        same = models.RunEvent.objects.filter(pk=row.pk, run_id=row.run_id, seq=row.seq)
        return None if row.pk is not None and same.exists() else error
    return None


_Visit = tuple[str, int]


class RunEventLog(EventLog[FlowEvent]):
    """Appends to the events of a run and knows its past: ``agents.core.nodes.RunLog``."""

    # Set by who works on the run, before its first node.
    scope: Scope
    deadline: Deadline

    def __init__(self, run: models.FlowRun) -> None:
        super().__init__()
        self.run = run
        self.updates: dict[_Visit, dict[str, Any]] = {}
        self.answers: dict[_Visit, list[dict[str, Any]]] = defaultdict(list)
        self.decisions: dict[_Visit, Mapping[str, Any]] = {}
        self.subflows: dict[_Visit, int] = {}
        self.verdicts: dict[_Visit, dict[str, Any]] = {}
        self.passages = RunPassages()
        self.reviews: list[dict[str, Any]] = []
        self.n_steps, self.input_tokens, self.output_tokens = 0, 0, 0
        self._began: dict[_Visit, float] = {}
        self._n_traced = 0

    def load(self) -> None:
        """Read what the run has done; a replay of recorded answers reads its original's too."""
        rows = list(self.run.events.order_by("seq").defer("trace"))
        if rows:
            traced = self.run.events.aggregate(n=Sum(Length("trace")))
            self._n_traced = traced["n"] or 0
        self.start_after(rows[-1].seq if rows else 0)
        for row in rows:
            self._remember(row)
            self._count(row.kind, row.data)
        original = self.run.replay_of
        if original is not None and self.run.has_recorded_answers:
            # Of what the run before it found its user may have lost some.
            gone = redactor_of(run=original)
            kinds = ("model_answer", "decided")
            done = {*self.updates, *self.answers, *self.decisions}
            for row in original.events.filter(kind__in=kinds).order_by("seq"):
                if (row.node, row.visit) not in done:
                    row.record = row.record and gone.record(row.kind, row.record)
                    self._remember(row)

    async def append(
        self,
        kind: str,
        node: str = "",
        visit: int = 0,
        *,
        data: Mapping[str, Any] | None = None,
        record: Mapping[str, Any] | None = None,
        trace: Mapping[str, Any] | None = None,
    ) -> None:
        """Store an event and publish it; ``data`` is public JSON, ``record`` for the log alone.

        ``trace`` is cut to its bounds, and left out when the run has told too much already.
        """
        row = self._row(kind, node, visit, data or {})
        if record is not None:
            row.record = json.dumps(pack_update(to_storable(record)), ensure_ascii=False)
        if trace is not None and self._n_traced < MAX_RUN_TRACE:
            row.trace = json.dumps(to_storable(cut_trace(trace)), ensure_ascii=False)
            self._n_traced += len(row.trace)
        # A write that was begun ends, or its number would be given twice.
        await asyncio.shield(self._store(row, None))

    async def append_last(self, kind: str, data: Mapping[str, Any], guard: Guard) -> None:
        """Store and publish the event of an outcome, which ``guard`` writes.

        It is called in the same transaction; when it returns False there is no event.
        """
        await asyncio.shield(self._store(self._row(kind, "", 0, data), guard))

    def _row(self, kind: str, node: str, visit: int, data: Mapping[str, Any]) -> models.RunEvent:
        return models.RunEvent(
            run=self.run,
            kind=kind,
            node=node,
            visit=visit,
            data=to_storable(data),
            at=timezone.now(),
        )

    async def _store(self, row: models.RunEvent, guard: Guard) -> None:
        async with self.lock:
            row.seq = self.seq + 1
            if guard is None and row.data.get("passages"):
                # A deletion that comes now finds the run by what it rests on.
                self.passages.restore(row.data["passages"])
                await retry_db(_note, self.run, self._found)
            if guard is None:
                await persist_event(row)
            elif not await retry_db(_save, row, guard, self._found):
                return
            self._remember(row)
            self._count(row.kind, row.data)
            self.publish(row.event)

    def recorded(self, node: str, visit: int) -> Mapping[str, Any] | None:
        """Return the update of a visit that an earlier worker has finished."""
        return self.updates.get((node, visit))

    def answer(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a run that ends here answers: its last turn, and what its sources say of it.

        ``outcome`` is uncited, without verdicts, where nothing was looked up for it.
        """
        text = last_turn(state)
        for visit in reversed(self.updates):
            if visit in self.verdicts and last_turn(self.updates[visit]) == text:
                return dict(self.verdicts[visit])
        if not self.passages.has_searched:
            return {"answer": text, "outcome": "uncited", "citations": [], "grounding": {}}
        writer = AnswerWriter(self.passages.all, question=user_query(state), marks="documents")
        writer.feed(text)
        writer.finish()
        return verdicts_of(writer.result())

    def node_run(self, node: str, visit: int) -> FlowNodeContext:
        """Return what a node is lent, with the decision that was made for this visit."""
        return self.lend(RunPlace(flows=(self.run.version.flow.name,)), node, visit)

    def lend(self, place: RunPlace, node: str, visit: int) -> FlowNodeContext:
        """Return the same for a node at a place inside the run."""
        name = self.run.version.flow.name
        set_account(self.scope, kind="flow", agent=name, run=str(self.run.key))
        return FlowNodeContext(self, node, visit, place)

    async def started(self, node: str, visit: int) -> None:
        """Store that a visit begins."""
        self._began[node, visit] = time.monotonic()
        await self.append("node_started", node, visit, data={"visit": visit})

    async def finished(self, node: str, visit: int, update: Mapping[str, Any]) -> None:
        """Store a visit's update, from which other workers go on."""
        turns = update.get("flow_msgs") or []
        data = {
            "visit": visit,
            "duration_ms": self._measure(node, visit, "ok"),
            "variables": update.get("edges_var") or {},
            "response_content": turns[-1]["content"] if turns else "",
        }
        if told := self.verdicts.get((node, visit)):
            told = dict(told)
            data |= {"response_content": told.pop("answer"), **told}
        await self.append("node_finished", node, visit, data=data, record=update)

    async def routed(
        self, node: str, visit: int, route: Mapping[str, Any], tests: Sequence[Mapping[str, Any]]
    ) -> None:
        """Store which edge was taken, and why."""
        trace = {"tests": list(tests)} if tests else None
        await self.append("route", node, visit, data=route, trace=trace)

    async def paused(self, node: str, visit: int, pause: Pause) -> None:
        """Keep what must be decided for the end of this leg, when the whole run stands still."""
        asked = {"message": pause.message, "decisions": list(pause.decisions)}
        values = [dict(one) for one in pause.values]
        editable = [{"name": name, "value": one} for name, one in pause.editable.items()]
        place = {"node": node, "visit": visit}
        more = {"editable": editable} if editable else {}
        self.reviews.append({**place, **asked, "values": values, **more})

    async def failed(self, node: str, visit: int) -> None:
        """Store where a run broke off."""
        data = {"visit": visit, "duration_ms": self._measure(node, visit, "failed")}
        await self.append("node_failed", node, visit, data=data)

    @property
    def _found(self) -> list[int]:
        return [pk for one in self.passages.all for pk in one.hit.chunk_ids]

    def _measure(self, node: str, visit: int, outcome: str) -> float:
        spent_ms = round((time.monotonic() - self._began[node, visit]) * 1e3, 1)
        name = self.run.version.flow.name
        metrics.observe("node", spent_ms / 1e3, flow=name, node=node, outcome=outcome)
        return spent_ms

    def _remember(self, row: models.RunEvent) -> None:
        visit = (row.node, row.visit)
        if "passages" in row.data:
            self.passages.restore(row.data["passages"])
        if row.kind == "node_finished" and "grounding" in row.data:
            kept = {key: row.data[key] for key in ("outcome", "citations", "grounding")}
            self.verdicts[visit] = {"answer": row.data["response_content"], **kept}
        if row.record is None:
            return
        record = unpack_update(json.loads(row.record))
        if row.kind == "node_finished":
            self.updates[visit] = record
        elif row.kind == "model_answer":
            self.answers[visit].append(record)
        elif row.kind == "subflow":
            self.subflows[visit] = record["version_id"]
        elif row.kind == "decided":
            self.decisions[visit] = record

    def _count(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "node_finished":
            self.n_steps += 1
        elif kind == "model_answer":
            self.input_tokens += data.get("input_tokens") or 0
            self.output_tokens += data.get("output_tokens") or 0


def _note(run: models.FlowRun, found: Sequence[int]) -> None:
    with transaction.atomic():
        note_found(run=run, chunk_ids=found)


def _save(row: models.RunEvent, guard: Callable[[], bool], found: Sequence[int]) -> bool:
    with transaction.atomic():
        is_whole = note_found(run=row.run, chunk_ids=found) if found else True
        if not guard():
            return False
        row.save(force_insert=True)
        if not is_whole:
            redact_ended_run(run=row.run)
    return True


def stored_run_events(run_id: int, after: int) -> tuple[bool, list[FlowEvent]]:
    """Return whether a run is at work, and then its stored events above a number.

    Passages that are gone by now, or hidden from the run's user, are empty in them.
    """
    # First the status: what is read after it is complete if the run had ended.
    is_running = models.FlowRun.objects.filter(pk=run_id, status=RUNNING).exists()
    rows = models.RunEvent.objects.filter(run_id=run_id, seq__gt=after).defer("record", "trace")
    events = [row.event for row in rows.order_by("seq")]
    if not events:
        return is_running, events
    run = models.FlowRun.objects.select_related("user").get(pk=run_id)
    gone = redactor_of(run=run)
    told = [gone.event(event.kind, event.data) for event in events]
    redacted = redact_hits(values=told, scope=run_scope(run=run))
    return is_running, [
        replace(event, data=data) for event, data in zip(events, redacted, strict=True)
    ]

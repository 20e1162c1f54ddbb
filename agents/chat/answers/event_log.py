"""Event log of an answer: events are published at once and stored in batches ten times a second.

Whoever reconnects with the last number they saw gets the rest, in this process or another. If the
process dies another one begins the answer again, once: a half-written text cannot be continued.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import DatabaseError, IntegrityError, InterfaceError, transaction
from django.db.models import F, Func, Max
from django.utils import timezone

from agents import models
from agents.chat.history.evidence import (
    Evidence,
    redact_ended,
    redact_unreadable,
)
from agents.core.chat_events import LAST_KINDS, ChatEvent, Transcript
from agents.core.state import to_storable
from agents.runtime.scopes import are_there, owner_scope
from agents.runtime.worker import (
    RUNNING,
    EventLog,
    Guard,
    abandoned,
    close_lease,
    enqueue_takeover,
)
from rag.core.errors import ProviderError
from rag.core.hits import hit_chunk_ids
from rag.services.threads import run_db
from rag.services.usage import DeferredUsage, ModelCall, record_call

WRITE_S = 0.1
# So many events may be published before they are stored; who publishes more waits.
MAX_AHEAD = 400
# Above every number that was published and not stored when the process died.
GAP = 1000
_COPIED = ("content", "citations", "sources", "notices", "grounding")
_STATUS = models.Message.Status
log = logging.getLogger(__name__)


class AnswerEventLog(EventLog[ChatEvent]):
    """Events of an answer while it is written. For the event loop that made it.

    What models have cost waits in ``calls`` and is written with the events; once the log is closed,
    nothing waits there any more.
    """

    def __init__(self, message_id: int, after: int = 0) -> None:
        super().__init__()
        self.start_after(after)
        self.transcript, self.calls = Transcript(), DeferredUsage()
        self._message_id, self._n_stored = message_id, after
        self._writer = asyncio.create_task(self._write_loop())

    async def append(self, kind: str, data: Mapping[str, Any]) -> None:
        """Publish an event at once; it is stored within a tenth of a second."""
        clean = to_storable(data)
        self.transcript.add(kind, clean)
        self.publish(ChatEvent(self.seq + 1, kind, clean))
        if self.seq - self._n_stored > MAX_AHEAD:
            await self._flush()

    async def close(self, kind: str, data: Mapping[str, Any], guard: Guard = None) -> bool:
        """Store the last event with all before it, in one transaction; then publish it.

        ``guard`` is called in that transaction; when it returns False the answer is another's:
        nothing is stored or published.
        """
        self._writer.cancel()
        try:
            return await self._flush((kind, to_storable(data)), guard)
        finally:
            self.end()
            if rest := self.calls.take(is_last=True):
                await run_db(persist_events, self._message_id, (), None, rest)

    def abandon(self) -> None:
        """Store no more: another process writes the answer from its beginning."""
        self._writer.cancel()
        self.end()

    async def _flush(
        self, last: tuple[str, Mapping[str, Any]] | None = None, guard: Guard = None
    ) -> bool:
        # A write that was begun ends, or its rows would be written twice.
        return await asyncio.shield(self._store(last, guard))

    async def _store(self, last: tuple[str, Mapping[str, Any]] | None, guard: Guard) -> bool:
        """Store what is published and not stored, with what models have cost; then ``last``."""
        async with self.lock:
            events = self.after(self._n_stored)
            if last:
                events.append(ChatEvent(self.seq + 1, *last))
            if not events and not self.calls.is_waiting:
                return False
            is_ours = await run_db(self._persist, events, guard)
            if is_ours:
                self._n_stored += len(events)
                if last:
                    self.publish(events[-1])
            return is_ours

    def _persist(self, events: Sequence[ChatEvent], guard: Guard) -> bool:
        with self.calls.writing() as calls:
            try:
                return persist_events(self._message_id, events, guard, calls)
            except IntegrityError:
                # The connection was lost after a commit: what it stored is there.
                stored = last_seq(message_id=self._message_id)
                rest = [event for event in events if event.seq > stored]
                return persist_events(self._message_id, rest, guard, calls)

    async def _write_loop(self) -> None:
        while await asyncio.sleep(WRITE_S, True):
            try:
                await self._flush()
            except (DatabaseError, InterfaceError) as error:
                # Tried again in a tenth of a second; who listens misses nothing. What the database
                # says may quote the row.
                kind = type(error).__name__
                log.error("events of message %s are not stored yet: %s", self._message_id, kind)


KINDS = frozenset(
    {
        "step",
        "rewrite",
        "sources",
        "tool_call",
        "tool_result",
        "agent_call",
        "agent_result",
        "notice",
        "usage",
        "error",
        "stopped",
    }
)
_HIT = ("doc_id", "chunk_id", "revision", "file_id", "store_id", "source", "external_id", "score")
# What is a text stands in the message or in its documents, and is not kept twice.
_TEXTS = frozenset({"text", "answer", "content", "query", "original", "citations", "message"})
_COLUMNS = frozenset({"step", "tool", "agent", "outcome", "status", "code", "duration_ms"})
MAX_CHARACTERS, MAX_DEPTH, MAX_ITEMS = 500, 4, 50


def trace_steps(
    *, message_id: int, events: Iterable[ChatEvent], at: datetime
) -> list[models.TraceStep]:
    """Return a row for each event that tells a decision; texts are left out, but for arguments."""
    return [
        models.TraceStep(
            message_id=message_id,
            seq=event.seq,
            kind=event.kind,
            at=at,
            data=_facts(event),
            name=_word(event.data, "step", "tool", "agent", "model")[:100],
            outcome=_word(event.data, "outcome", "status", "code")[:20],
            duration_ms=_number(event.data.get("duration_ms")),
        )
        for event in events
        if event.kind in KINDS
    ]


def _facts(event: ChatEvent) -> dict[str, Any]:
    if event.kind == "sources":
        hits = event.data.get("sources", [])
        return {"hits": [{name: hit[name] for name in _HIT if name in hit} for hit in hits]}
    gone = _TEXTS | _COLUMNS
    return {name: _short(value) for name, value in event.data.items() if name not in gone}


def _short(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return value if len(value) <= MAX_CHARACTERS else f"{value[:MAX_CHARACTERS]}…"
    if depth >= MAX_DEPTH:
        return None if isinstance(value, (Mapping, list, tuple)) else value
    if isinstance(value, Mapping):
        return {str(name): _short(one, depth + 1) for name, one in list(value.items())[:MAX_ITEMS]}
    if isinstance(value, (list, tuple)):
        return [_short(one, depth + 1) for one in value[:MAX_ITEMS]]
    return value


def _word(data: Mapping[str, Any], *names: str) -> str:
    return next((found for name in names if isinstance(found := data.get(name), str)), "")


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def persist_events(
    message_id: int,
    events: Sequence[ChatEvent],
    guard: Callable[[], bool] | None = None,
    calls: Sequence[ModelCall] = (),
) -> bool:
    """Write events down with ``guard`` in one transaction; none when that returns False.

    What ``calls`` of models have cost is written with them, in any case.
    """
    now = timezone.now()
    rows = [
        models.MessageEvent(
            message_id=message_id, seq=one.seq, kind=one.kind, data=one.data, at=now
        )
        for one in events
    ]
    steps = trace_steps(message_id=message_id, events=events, at=now)
    with transaction.atomic():
        is_ours = guard is None or guard()
        if is_ours:
            models.MessageEvent.objects.bulk_create(rows)
            models.TraceStep.objects.bulk_create(steps)
            if guard is None:
                _note_shown(message_id, events)
        # Last, for the budgets of a key are locked until the end.
        for call in calls:
            record_call(call=call)
    return is_ours


def _note_shown(message_id: int, events: Sequence[ChatEvent]) -> None:
    """Write down which chunks a model is shown, with what it says of them or before."""
    told = [one.data["sources"] for one in events if one.kind == "sources"]
    if shown := {pk for sources in told for one in sources for pk in hit_chunk_ids(one)}:
        rows = models.Message.objects.filter(pk=message_id)
        rows.update(chunk_ids=Func(F("chunk_ids"), sorted(shown), function="array_cat"))


def close_answer(message: models.Message, values: Mapping[str, Any]) -> bool:
    """Write the outcome of an answer and end its lease; return False when the lease was lost.

    False as well where something that it rests on was deleted meanwhile: what is left of it is
    kept then, and who follows is told that.
    """
    # First the chunks, as who deletes them does: a deletion finds the answer, or is found by it.
    is_whole = are_there(values["chunk_ids"])
    # The session before the message, as who deletes it does: else both would wait for each other.
    models.Session.objects.filter(pk=message.session_id).update(updated_at=timezone.now())
    if not close_lease(message, values):
        return False
    if not is_whole:
        redact_ended(message_id=message.pk)
    return is_whole


def begin_again(message: models.Message) -> bool:
    """Leave an answer to another process, from its beginning; False where it was left once before.

    Who follows is told that what was written so far counts for nothing. In a transaction.
    """
    if not message.request.get("n_starts_left"):
        return False
    request = {**message.request, "n_starts_left": message.request["n_starts_left"] - 1}
    mine = models.Message.objects.filter(pk=message.pk, worker=message.worker, status=RUNNING)
    # Whoever takes the job has the time of a lease for it.
    if not mine.update(request=request, worker=None, seen_at=timezone.now()):
        return False
    note = ProviderError("The server ended while the answer was being written: it is begun again.")
    told = (
        ("replace", {"text": "", "citations": []}),
        ("notice", {"step": "restart", "error": note.as_dict()}),
    )
    seq = last_seq(message_id=message.pk) + GAP
    for number, (kind, data) in enumerate(told, start=seq):
        models.MessageEvent.objects.create(message=message, seq=number, kind=kind, data=data)
    lock = f"agents.answer.{message.pk}"
    enqueue_takeover(task="agents.adopt_answer", lock=lock, message_id=message.pk)
    return True


def last_seq(*, message_id: int) -> int:
    """Return the number of the last event that is stored, 0 for none."""
    events = models.MessageEvent.objects.filter(message_id=message_id)
    n: int | None = events.aggregate(n=Max("seq"))["n"]
    return n or 0


def fail_abandoned(*, message_id: int | None = None) -> int:
    """Begin answers again whose lease has expired; fail those that were; return how many failed.

    What these had written so far is kept with the answer.
    """
    dead = abandoned(models.Message)
    if message_id is not None:
        dead = dead.filter(pk=message_id)
    return sum(_end(pk) for pk in dead.values_list("pk", flat=True)[:100])


def _end(message_id: int) -> bool:
    error = ProviderError(
        "The server ended while the answer was being written.", hint="Ask again."
    ).as_dict()
    with transaction.atomic():
        held = abandoned(models.Message).select_for_update(skip_locked=True)
        message = held.filter(pk=message_id).first()
        if message is None or begin_again(message):
            return False
        transcript = Transcript()
        for kind, data in message.events.order_by("seq").values_list("kind", "data"):
            transcript.add(kind, data)
        message.content, message.citations = transcript.text, transcript.citations
        # With what it rests on: words of passages that are hidden later go from it too.
        message.sources, message.notices = transcript.sources, transcript.notices
        message.status, message.error, message.worker = _STATUS.ERROR, error, None
        message.save(update_fields=[*_COPIED, "status", "error", "worker"])
        seq = last_seq(message_id=message.pk) + GAP
        data = {
            "code": "interrupted",
            "error": error,
            "message": str(message.key),
            "text": transcript.text,
            "citations": transcript.citations,
        }
        models.MessageEvent.objects.create(message=message, seq=seq, kind="error", data=data)
        redact_ended(message_id=message.pk)
    return True


def stored_answer_events(message_id: int, after: int) -> tuple[bool, list[ChatEvent]]:
    """Return whether an answer is at work, and then its stored events above a number.

    Of a process that died the last event is an error. Events that were cleared away, or that would
    give back passages which are gone or hidden from the session's owner, are told by the last one,
    which has the rest.
    """
    fail_abandoned(message_id=message_id)
    # First the status: what is read after it is complete if the answer had ended.
    is_running = models.Message.objects.filter(pk=message_id, status=_STATUS.RUNNING).exists()
    told = models.Message.objects.select_related("session__user", "parent").filter(pk=message_id)
    ended = None if is_running else told.first()
    evidence = Evidence()
    if ended is not None:
        scope = owner_scope(session=ended.session)
        evidence = redact_unreadable(messages=[ended], scope=scope)[ended.pk]
    events: list[ChatEvent] = []
    if not evidence.is_reduced:
        rows = models.MessageEvent.objects.filter(message_id=message_id, seq__gt=after)
        events = [ChatEvent(row.seq, row.kind, row.data) for row in rows.order_by("seq")]
    if not is_running and (not events or events[-1].kind not in LAST_KINDS):
        seq = events[-1].seq if events else after
        events.append(_last_of(ended, evidence, seq + 1))
    return is_running, events


def _last_of(message: models.Message | None, evidence: Evidence, seq: int) -> ChatEvent:
    """Return how an answer ended whose last event is not there, is hidden, or was seen before."""
    data: dict[str, Any] = {
        "text": evidence.content,
        "citations": evidence.citations,
        "grounding": evidence.grounding,
    }
    if message is None:
        # Its session was deleted meanwhile: nothing of it is told any more.
        return ChatEvent(seq, _STATUS.STOPPED, data)
    if message.status == _STATUS.ERROR:
        data |= {"code": "interrupted", "error": message.error}
    return ChatEvent(seq, message.status, {"message": str(message.key), **data})

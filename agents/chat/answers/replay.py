"""Event replay of an answer: its events from any sequence number on, then live ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any

from django.conf import settings

from agents import models
from agents.chat.answers.lease import fail_abandoned
from agents.chat.answers.worker import AnswerWorker
from agents.chat.history.evidence import Evidence, redact_unreadable
from agents.core.chat_events import LAST_KINDS, ChatEvent
from agents.runtime.event_log import replay_events
from agents.runtime.scopes import owner_scope

_RUNNING = models.Message.Status.RUNNING


def replay_answer_events(*, message_id: int, after: int = 0) -> AsyncGenerator[ChatEvent, None]:
    """Yield the events with a number above ``after``, then new ones until the answer ends.

    An answer of another process is followed through the database; if that process died, the last
    event is an error. Events that were cleared away, or that would give back passages which are
    gone or hidden from the session's owner, are told by the last one, which has the rest.
    """
    live = partial(AnswerWorker.find_live, message_id)
    return replay_events(partial(_stored, message_id), live, after=after, last_kinds=LAST_KINDS)


def _stored(message_id: int, after: int) -> tuple[bool, list[ChatEvent]]:
    fail_abandoned(message_id=message_id)
    # First the status: what is read after it is complete if the answer had ended.
    is_running = models.Message.objects.filter(pk=message_id, status=_RUNNING).exists()
    events: list[ChatEvent] = []
    if is_running or not _is_hiding(message_id):
        rows = models.MessageEvent.objects.filter(message_id=message_id, seq__gt=after)
        events = [ChatEvent(row.seq, row.kind, row.data) for row in rows.order_by("seq")]
    if not is_running and (not events or events[-1].kind not in LAST_KINDS):
        events.append(_last_of(message_id, events[-1].seq if events else after))
    return is_running, events


def _is_hiding(message_id: int) -> bool:
    """Return whether an answer's events hold words that its owner may not read any more."""
    message = _message(message_id)
    if message is None:
        return False
    shown = _evidence(message)
    return any(one.get("is_gone") for one in (*shown.sources, *shown.citations))


def _last_of(message_id: int, after: int) -> ChatEvent:
    """Return how an answer ended whose last event is not there, is hidden, or was seen before."""
    message = _message(message_id)
    if message is None:
        # Its session was deleted meanwhile: nothing of it is told any more.
        return ChatEvent(after + 1, models.Message.Status.STOPPED, {"text": "", "citations": []})
    shown = _evidence(message)
    data: dict[str, Any] = {
        "message": str(message.key),
        "text": shown.content,
        "citations": shown.citations,
    }
    if message.status == models.Message.Status.ERROR:
        data |= {"code": "interrupted", "error": message.error}
    return ChatEvent(after + 1, message.status, data)


def _message(message_id: int) -> models.Message | None:
    return models.Message.objects.select_related("session__user").filter(pk=message_id).first()


def _evidence(message: models.Message) -> Evidence:
    return redact_unreadable(messages=[message], scope=owner_scope(session=message.session))[
        message.pk
    ]


async def subscribe(*, message_id: int, after: int = 0) -> AsyncGenerator[ChatEvent, None]:
    """Yield the events with a number above ``after``.

    Leaving early stops the answer, unless ``AGENT_FINISHES_ALONE`` lets it be written to its end.
    """
    is_over = False
    events: Any = replay_answer_events(message_id=message_id, after=after)
    try:
        async with aclosing(events):
            async for event in events:
                is_over = event.kind in LAST_KINDS
                yield event
    finally:
        if not is_over and not settings.AGENTS["FINISHES_ALONE"]:
            cancel_local(message_id=message_id)


def cancel_local(*, message_id: int) -> None:
    """Stop an answer that this process writes, and the model's work on it."""
    worker = AnswerWorker.active.get(message_id)
    if worker is not None:
        worker.stop()

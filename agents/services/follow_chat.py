"""The events of an answer, from any point on. In: an answer, the last seen. Out: the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from agents import models
from agents.core.chat import LAST_KINDS, ChatEvent
from agents.services.chat_claim import end_abandoned
from agents.services.chat_worker import AT_WORK
from agents.services.in_db import in_db

POLL_S = 0.2
_RUNNING = models.Message.Status.RUNNING


async def follow_chat(*, message_id: int, after: int = 0) -> AsyncIterator[ChatEvent]:
    """Yield the events with a number above ``after``, then new ones until the answer ends.

    An answer of another process is followed through the database; if that process died, the last
    event is an error. Events that were cleared away are told by the last one, which has the text.
    """
    worker = AT_WORK.get(message_id)
    if worker and worker.log.is_here:
        async for event in worker.log.follow(after):
            yield event
            if event.kind in LAST_KINDS:
                return
            after = event.seq
    while True:
        is_running, events = await in_db(_stored, message_id, after)
        for event in events:
            yield event
            if event.kind in LAST_KINDS:
                return
            after = event.seq
        if not is_running:
            yield await in_db(_last_of, message_id, after)
            return
        await asyncio.sleep(POLL_S)


def _stored(message_id: int, after: int) -> tuple[bool, list[ChatEvent]]:
    end_abandoned(message_id=message_id)
    # First the status: what is read after it is complete if the answer had ended.
    is_running = models.Message.objects.filter(pk=message_id, status=_RUNNING).exists()
    rows = models.MessageEvent.objects.filter(message_id=message_id, seq__gt=after)
    return is_running, [ChatEvent(row.seq, row.kind, row.data) for row in rows.order_by("seq")]


def _last_of(message_id: int, after: int) -> ChatEvent:
    """Return how an answer ended whose last event is not there, or was seen before."""
    message = models.Message.objects.get(pk=message_id)
    data = {"message": str(message.key), "text": message.content, "citations": message.citations}
    if message.status == models.Message.Status.ERROR:
        data |= {"code": "interrupted", "error": message.error}
    return ChatEvent(after + 1, message.status, data)

"""Event log of an answer: events are published at once and stored in batches ten times a second.

Whoever reconnects with the last number they saw gets the rest, in this process or another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from django.db import DatabaseError, InterfaceError

from agents.chat.answers.persist import persist_events
from agents.core.chat_events import ChatEvent, Transcript
from agents.core.json_state import to_storable
from agents.runtime.event_log import EventLog, Guard
from rag.services.threads import run_db
from rag.services.usage import DeferredUsage

WRITE_S = 0.1
# So many events may be published before they are stored; who publishes more waits.
MAX_AHEAD = 400
log = logging.getLogger(__name__)


class AnswerEventLog(EventLog[ChatEvent]):
    """Events of an answer while it is written. For the event loop that made it.

    What models have cost waits in ``calls`` and is written with the events; once the log is closed,
    nothing waits there any more.
    """

    def __init__(self, message_id: int) -> None:
        super().__init__()
        self.transcript, self.calls = Transcript(), DeferredUsage()
        self._message_id = message_id
        self._writer = asyncio.create_task(self._write_loop())

    async def append(self, kind: str, data: Mapping[str, Any]) -> None:
        """Publish an event at once; it is stored within a tenth of a second."""
        clean = to_storable(data)
        self.transcript.add(kind, clean)
        self.live.publish(ChatEvent(self.live.seq + 1, kind, clean))
        if self.live.seq - self._n_stored > MAX_AHEAD:
            await self.flush()

    async def close(self, kind: str, data: Mapping[str, Any], guard: Guard = None) -> bool:
        """Store the last event with all before it, in one transaction; then publish it.

        ``guard`` is called in that transaction; when it returns False the answer is another's:
        nothing is stored or published.
        """
        self._writer.cancel()
        last = to_storable(data)
        try:
            return await self.flush(lambda seq: ChatEvent(seq, kind, last), guard)
        finally:
            self.live.close()
            if rest := self.calls.take(is_last=True):
                await run_db(persist_events, self._message_id, (), None, rest)

    async def save(self, events: list[ChatEvent], guard: Guard) -> bool:
        """Store events with what models have cost meanwhile."""
        calls = self.calls.take()
        if not events and not calls:
            return False
        try:
            return await run_db(persist_events, self._message_id, events, guard, calls)
        except (DatabaseError, InterfaceError):
            for call in calls:
                self.calls.add(call)
            raise

    async def _write_loop(self) -> None:
        while await asyncio.sleep(WRITE_S, True):
            try:
                await self.flush()
            except (DatabaseError, InterfaceError) as error:
                # Tried again in a tenth of a second; who listens misses nothing. What the database
                # says may quote the row.
                kind = type(error).__name__
                log.error("events of message %s are not stored yet: %s", self._message_id, kind)

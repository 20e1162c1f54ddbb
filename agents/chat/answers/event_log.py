"""Event log of an answer: events are published at once and stored in batches ten times a second.

Whoever reconnects with the last number they saw gets the rest, in this process or another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from django.db import DatabaseError, InterfaceError

from agents.chat.answers.persist import persist_events
from agents.core.chat_events import LAST_KINDS, ChatEvent, Transcript
from agents.core.json_state import to_storable
from rag.services.threads import run_db
from rag.services.usage import DeferredUsage


class LiveEvents:
    """Events numbered from 1 as they are published. For one event loop."""

    def __init__(self) -> None:
        self._events: list[ChatEvent] = []
        self._changed: set[asyncio.Event] = set()
        self._is_closed = False

    @property
    def n(self) -> int:
        """Return how many have been published."""
        return len(self._events)

    def publish(self, kind: str, data: Mapping[str, Any]) -> None:
        """Publish an event to all who follow."""
        self._events.append(ChatEvent(len(self._events) + 1, kind, data))
        self._wake()

    def after(self, seq: int) -> list[ChatEvent]:
        """Return the events with a number above ``seq``."""
        return self._events[seq:]

    def close(self) -> None:
        """Let those who follow go: there will be no more."""
        self._is_closed = True
        self._wake()

    async def follow(self, after: int) -> AsyncIterator[ChatEvent]:
        """Yield the events with a number above ``after``, as they come, until the last one."""
        changed = asyncio.Event()
        self._changed.add(changed)
        try:
            while True:
                changed.clear()
                for event in self._events[after:]:
                    yield event
                    after = event.seq
                if self._is_closed or (self._events and self._events[-1].kind in LAST_KINDS):
                    return
                await changed.wait()
        finally:
            self._changed.discard(changed)

    def _wake(self) -> None:
        for changed in self._changed:
            changed.set()


WRITE_S = 0.1
# So many events may be published before they are stored; who publishes more waits.
MAX_AHEAD = 400
log = logging.getLogger(__name__)


class AnswerEventLog:
    """Events of an answer while it is written. For the event loop that made it.

    What models have cost waits in ``calls`` and is written with the events; once the log is closed,
    nothing waits there any more.
    """

    def __init__(self, message_id: int) -> None:
        self.transcript, self.calls = Transcript(), DeferredUsage()
        self._message_id = message_id
        self._live, self._n_stored = LiveEvents(), 0
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self._writer = asyncio.create_task(self._write_loop())

    @property
    def is_here(self) -> bool:
        """Return whether the caller is on this log's loop."""
        return asyncio.get_running_loop() is self._loop

    async def append(self, kind: str, data: Mapping[str, Any]) -> None:
        """Publish an event at once; it is stored within a tenth of a second."""
        clean = to_storable(data)
        self.transcript.add(kind, clean)
        self._live.publish(kind, clean)
        if self._live.n - self._n_stored > MAX_AHEAD:
            await self._store()

    async def close(
        self, kind: str, data: Mapping[str, Any], guard: Callable[[], bool] | None = None
    ) -> bool:
        """Store the last event with all before it, in one transaction; then publish it.

        ``guard`` is called in that transaction; when it returns False the answer is another's:
        nothing is stored or published.
        """
        self._writer.cancel()
        last = ChatEvent(self._live.n + 1, kind, to_storable(data))
        try:
            return await self._store(last, guard)
        finally:
            self._live.close()
            if rest := self.calls.take(is_last=True):
                await run_db(persist_events, self._message_id, (), None, rest)

    def follow(self, after: int) -> AsyncIterator[ChatEvent]:
        """Yield the events with a number above ``after``, as they come, until the last one."""
        return self._live.follow(after)

    async def _write_loop(self) -> None:
        while await asyncio.sleep(WRITE_S, True):
            try:
                await self._store()
            except (DatabaseError, InterfaceError) as error:
                # Tried again in a tenth of a second; who listens misses nothing. What the database
                # says may quote the row.
                kind = type(error).__name__
                log.error("events of message %s are not stored yet: %s", self._message_id, kind)

    async def _store(
        self, last: ChatEvent | None = None, guard: Callable[[], bool] | None = None
    ) -> bool:
        # A write that was begun ends, or its rows would be written twice.
        return await asyncio.shield(asyncio.ensure_future(self._store_now(last, guard)))

    async def _store_now(self, last: ChatEvent | None, guard: Callable[[], bool] | None) -> bool:
        async with self._lock:
            events = self._live.after(self._n_stored) + ([last] if last else [])
            calls = self.calls.take()
            if not events and not calls:
                return False
            try:
                is_ours = await run_db(persist_events, self._message_id, events, guard, calls)
            except (DatabaseError, InterfaceError):
                for call in calls:
                    self.calls.add(call)
                raise
            if not is_ours:
                return False
            self._n_stored += len(events)
            if last:
                self._live.publish(last.kind, last.data)
            return True

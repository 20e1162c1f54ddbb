"""The events of one answer in memory, for whoever listens here. In: events. Out: the same, live."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from agents.core.chat import LAST_KINDS, ChatEvent


class ToldEvents:
    """Events numbered from 1 as they are told. For one event loop."""

    def __init__(self) -> None:
        self._events: list[ChatEvent] = []
        self._changed: set[asyncio.Event] = set()
        self._is_closed = False

    @property
    def n(self) -> int:
        """Return how many have been told."""
        return len(self._events)

    def tell(self, kind: str, data: Mapping[str, Any]) -> None:
        """Tell an event to all who follow."""
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

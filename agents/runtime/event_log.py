"""Event log of a long run: numbers its events, stores them and publishes them to who follows here.

Replay: stored events from any number on, then live ones, in this process or another.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

from rag.services.threads import run_thread_sensitive

POLL_S = 0.2
Guard = Callable[[], bool] | None


class Event(Protocol):
    """What happened; ``seq`` counts from 1 within its run and is the id to go on after."""

    @property
    def seq(self) -> int:
        """Return its number."""

    @property
    def kind(self) -> str:
        """Return what happened."""


E = TypeVar("E", bound=Event)


class LiveEvents(Generic[E]):
    """Events of one run in memory, from the one after ``seq`` on. For one event loop."""

    def __init__(self) -> None:
        self.seq = 0
        self._first = 0
        self._events: list[E] = []
        self._followers: set[asyncio.Event] = set()
        self._loop = asyncio.get_running_loop()
        self._is_closed = False

    @property
    def is_here(self) -> bool:
        """Return whether the caller is on the loop of this run."""
        return asyncio.get_running_loop() is self._loop

    def start_after(self, seq: int) -> None:
        """Say how many events there are already."""
        self.seq = self._first = seq

    def publish(self, event: E) -> None:
        """Publish an event to all who follow."""
        self._events.append(event)
        self.seq = event.seq
        self._wake()

    def after(self, seq: int) -> list[E]:
        """Return the events with a number above ``seq``."""
        return self._events[max(0, seq - self._first) :]

    def close(self) -> None:
        """Let those who follow go: there will be no more."""
        self._is_closed = True
        self._wake()

    async def follow(self, after: int) -> AsyncGenerator[E, None]:
        """Yield the events with a number above ``after``, as they come, until the last one."""
        changed = asyncio.Event()
        self._followers.add(changed)
        try:
            while True:
                changed.clear()
                for event in self.after(after):
                    yield event
                    after = event.seq
                if self._is_closed:
                    return
                await changed.wait()
        finally:
            self._followers.discard(changed)

    def _wake(self) -> None:
        for changed in self._followers:
            changed.set()


class EventLog(ABC, Generic[E]):
    """The events of a run while it is at work. For the event loop that made it."""

    def __init__(self) -> None:
        self.live: LiveEvents[E] = LiveEvents()
        self._n_stored = 0
        self._lock = asyncio.Lock()

    def start_after(self, seq: int) -> None:
        """Go on behind the events that are stored already."""
        self.live.start_after(seq)
        self._n_stored = seq

    @abstractmethod
    async def save(self, events: list[E], guard: Guard) -> bool:
        """Store events in one transaction; ``guard`` is called in it, False stores nothing."""

    async def flush(self, last: Callable[[int], E] | None = None, guard: Guard = None) -> bool:
        """Store what is published and not stored, and ``last``, which is published after that.

        ``last`` makes the event of a number. When ``guard`` returns False nothing is stored.
        """
        # A write that was begun ends, or its rows would be written twice.
        return await asyncio.shield(asyncio.ensure_future(self._flush(last, guard)))

    async def _flush(self, last: Callable[[int], E] | None, guard: Guard) -> bool:
        async with self._lock:
            events = self.live.after(self._n_stored)
            n_published = len(events)
            if last:
                events.append(last(self._n_stored + n_published + 1))
            if not await self.save(events, guard):
                return False
            self._n_stored += len(events)
            for event in events[n_published:]:
                self.live.publish(event)
            return True


async def replay_events(
    read: Callable[[int], tuple[bool, list[E]]],
    find_live: Callable[[], LiveEvents[E] | None],
    *,
    after: int,
    is_read_first: bool = False,
    last_kinds: frozenset[str] = frozenset(),
) -> AsyncGenerator[E, None]:
    """Yield the events with a number above ``after``, then new ones until the run stands still.

    ``read`` returns whether the run is at work, and then its stored events above a number. With
    ``is_read_first`` the past is read there even where the run is at work here.
    """
    live = find_live()
    if live and live.is_here:
        if is_read_first:
            for event in (await run_thread_sensitive(read, after))[1]:
                yield event
                after = event.seq
        async with aclosing(live.follow(after)) as events_here:
            async for event in events_here:
                yield event
                after = event.seq
                if event.kind in last_kinds:
                    return
    while True:
        is_running, events = await run_thread_sensitive(read, after)
        for event in events:
            yield event
            after = event.seq
            if event.kind in last_kinds:
                return
        if not is_running:
            return
        await asyncio.sleep(POLL_S)

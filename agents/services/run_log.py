"""The log of one run: what it did, told to all who follow, and what need not be done again.

An event is stored before anybody is told of it; a visit that has a stored end is never repeated,
whatever process the run goes on in.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents import models
from agents.core.events import FlowEvent
from agents.core.json_state import packed, storable, unpacked
from agents.services.in_db import in_db_patiently
from agents.services.write_events import write_event

_Visit = tuple[str, int]


class EventLog:
    """Appends to the events of a run and knows its past. For one event loop."""

    def __init__(self, run: models.FlowRun, publish: Callable[[FlowEvent], None]) -> None:
        self.run = run
        self._publish = publish
        self._lock = asyncio.Lock()
        self._seq = 0
        self.updates: dict[_Visit, dict[str, Any]] = {}
        self.answers: dict[_Visit, list[dict[str, Any]]] = defaultdict(list)
        self.decisions: dict[_Visit, str] = {}
        self.n_steps, self.input_tokens, self.output_tokens = 0, 0, 0

    def load(self) -> None:
        """Read what the run has done; a replay of recorded answers reads its original's too."""
        rows = list(self.run.events.order_by("seq"))
        self._seq = rows[-1].seq if rows else 0
        for row in rows:
            self._remember(row)
            self._count(row.kind, row.data)
        original = self.run.replay_of
        if original is not None and self.run.has_recorded_answers:
            kinds = ("model_answer", "decided")
            done = {*self.updates, *self.answers, *self.decisions}
            for row in original.events.filter(kind__in=kinds).order_by("seq"):
                if (row.node, row.visit) not in done:
                    self._remember(row)

    @property
    def n_events(self) -> int:
        """Return how many events are stored."""
        return self._seq

    async def append(
        self, kind: str, node: str = "", visit: int = 0, *,
        data: Mapping[str, Any] | None = None, record: Mapping[str, Any] | None = None,
        along: Callable[[], bool] | None = None,
    ) -> None:  # fmt: skip
        """Store an event and tell of it; ``data`` is public JSON, ``record`` for the log alone.

        ``along`` is done in the same transaction; when it returns False there is no event.
        """
        row = models.RunEvent(
            run=self.run, kind=kind, node=node, visit=visit, data=storable(data or {}),
            record=None if record is None else _text(record), at=timezone.now(),
        )  # fmt: skip
        # Whoever is cancelled here has stored the event and must know its number.
        await asyncio.shield(self._store(row, along))

    async def _store(self, row: models.RunEvent, along: Callable[[], bool] | None) -> None:
        async with self._lock:
            row.seq = self._seq + 1
            if along is None:
                await write_event(row)
            elif not await in_db_patiently(_save, row, along):
                return
            self._seq = row.seq
            self._remember(row)
            self._count(row.kind, row.data)
            self._publish(row.event)

    def _remember(self, row: models.RunEvent) -> None:
        visit = (row.node, row.visit)
        if row.record is None:
            return
        record = unpacked(json.loads(row.record))
        if row.kind == "node_finished":
            self.updates[visit] = record
        elif row.kind == "model_answer":
            self.answers[visit].append(record)
        elif row.kind == "decided":
            self.decisions[visit] = record["decision"]

    def _count(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "node_finished":
            self.n_steps += 1
        elif kind == "model_answer":
            self.input_tokens += data.get("input_tokens") or 0
            self.output_tokens += data.get("output_tokens") or 0


def _text(record: Mapping[str, Any]) -> str:
    return json.dumps(packed(storable(record)), ensure_ascii=False)


def _save(row: models.RunEvent, along: Callable[[], bool]) -> bool:
    with transaction.atomic():
        if not along():
            return False
        row.save(force_insert=True)
    return True

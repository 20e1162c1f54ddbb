"""Lease and heartbeat: one process owns a long run while its heartbeat is fresh.

A run is a row with ``status``, ``worker`` and ``seen_at``: a flow run or an answer. One task per
event loop renews the leases of all that are at work there, in one statement per table.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from django.db import Error
from django.db.models import Q, QuerySet
from django.utils import timezone

from agents import models
from rag.services.access import is_live_key
from rag.services.threads import run_thread_sensitive

LeasedRow = models.FlowRun | models.Message
HEARTBEAT_S = 2.0
# So many seconds without a heartbeat end a lease.
LEASE_S = 20.0
RUNNING, STOPPED = models.Message.Status.RUNNING.value, models.Message.Status.STOPPED.value
log = logging.getLogger(__name__)


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


def is_leased(row: LeasedRow) -> bool:
    """Return whether a worker holds a lease that has not expired."""
    here = type(row)._default_manager.filter(pk=row.pk, status=RUNNING)
    return here.exclude(Q(worker=None) | is_expired()).exists()


def close(row: LeasedRow, values: Mapping[str, Any]) -> bool:
    """Write the outcome of a run and end its lease; return False when the lease was lost."""
    mine = type(row)._default_manager.filter(pk=row.pk, worker=row.worker)
    cancelled = models.FlowRun.Status.CANCELLED
    if values.get("status") != cancelled:
        mine = mine.exclude(status=cancelled)
    return bool(mine.update(worker=None, seen_at=None, **values))


class Held(NamedTuple):
    """A row that is at work here, and whom to tell the status that ends this, None if it is lost.

    A run that was asked for with ``key_id`` is stopped when that key lets nobody in any more.
    """

    row: LeasedRow
    on_lost: Callable[[str | None], None]
    key_id: int | None = None


def renew(held: Sequence[Held]) -> dict[LeasedRow, str]:
    """Renew leases; return the status of each row that is still one's own.

    A database that cannot be asked takes none away: only a longer silence does.
    """
    try:
        standing: dict[LeasedRow, str] = {}
        for table in {type(one.row) for one in held}:
            rows = {one.row.pk: one.row for one in held if type(one.row) is table}
            workers = [row.worker for row in rows.values()]
            mine = table._default_manager.filter(pk__in=rows, worker__in=workers)
            mine.filter(status=RUNNING).update(seen_at=timezone.now())
            standing |= {rows[pk]: status for pk, status in mine.values_list("pk", "status")}
        for one in held:
            if one.key_id is not None and not is_live_key(key_id=one.key_id):
                standing[one.row] = STOPPED
    except Error as error:
        log.warning("no lease was renewed: %s", type(error).__name__)
        return dict.fromkeys((one.row for one in held), RUNNING)
    return standing


@dataclass(slots=True)
class _Heartbeat:
    held: dict[LeasedRow, Held] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


_HEARTBEATS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Heartbeat] = WeakKeyDictionary()


def start_heartbeat(held: Held) -> None:
    """Renew a lease until ``stop_heartbeat``; call ``on_lost`` when it is over before that."""
    loop = asyncio.get_running_loop()
    heartbeat = _HEARTBEATS.setdefault(loop, _Heartbeat())
    heartbeat.held[held.row] = held
    if heartbeat.task is None or heartbeat.task.done():
        # It beats for others too, after the request is over whose run came first.
        heartbeat.task = loop.create_task(_renew_loop(heartbeat), context=contextvars.Context())


def stop_heartbeat(row: LeasedRow) -> None:
    """Renew the lease of a row no more."""
    heartbeat = _HEARTBEATS[asyncio.get_running_loop()]
    heartbeat.held.pop(row, None)
    if not heartbeat.held and heartbeat.task is not None:
        heartbeat.task.cancel()
        heartbeat.task = None


async def _renew_loop(heartbeat: _Heartbeat) -> None:
    while await asyncio.sleep(HEARTBEAT_S, True):
        held = dict(heartbeat.held)
        standing = await run_thread_sensitive(renew, list(held.values()))
        for row, one in held.items():
            if row in heartbeat.held and (status := standing.get(row)) != RUNNING:
                heartbeat.held.pop(row)
                one.on_lost(status)

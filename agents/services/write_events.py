"""Events of many runs, written together. In: a row. Out: nothing, once it is stored.

While one transaction is under way others' rows wait and share the next: many runs at once cost
few commits, and a single run none more.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from django.db import Error, IntegrityError, transaction

from agents import models
from agents.services.in_db import in_db_patiently


@dataclass(slots=True)
class _Desk:
    """What waits to be written on one event loop, and who writes it."""

    waiting: list[tuple[models.RunEvent, asyncio.Future[None]]] = field(default_factory=list)
    writer: asyncio.Task[None] | None = None


_DESKS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Desk] = WeakKeyDictionary()


async def write_event(row: models.RunEvent) -> None:
    """Return when the row is committed; raise IntegrityError when its number is taken.

    Raises what the database says when it is gone for longer than ``in_db_patiently`` waits.
    """
    loop = asyncio.get_running_loop()
    desk = _DESKS.setdefault(loop, _Desk())
    future: asyncio.Future[None] = loop.create_future()
    desk.waiting.append((row, future))
    if desk.writer is None or desk.writer.done():
        # It writes for others too, after the request is over whose run came first.
        desk.writer = loop.create_task(_write(desk), context=contextvars.Context())
    await future


async def _write(desk: _Desk) -> None:
    while desk.waiting:
        batch, desk.waiting = desk.waiting, []
        faults: Sequence[Error | None]
        try:
            faults = await in_db_patiently(_save, [row for row, _ in batch])
        except Error as error:
            # Others wait by now, whose time is not over.
            faults = [error] * len(batch)
        except BaseException as error:
            # Each of those who wait must hear of it, or would wait for ever.
            for _, future in batch + desk.waiting:
                if not future.done():
                    future.set_exception(error)
            desk.waiting = []
            raise
        for (_, future), fault in zip(batch, faults, strict=True):
            if future.done():
                continue
            if fault is None:
                future.set_result(None)
            else:
                future.set_exception(fault)


def _save(rows: list[models.RunEvent]) -> list[IntegrityError | None]:
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
        return None if _is_stored(row) else error
    return None


def _is_stored(row: models.RunEvent) -> bool:
    # By a commit whose answer was lost: its key was given to this row alone.
    same = models.RunEvent.objects.filter(pk=row.pk, run_id=row.run_id, seq=row.seq)
    return row.pk is not None and same.exists()

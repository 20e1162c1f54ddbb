"""Lease and heartbeat of flow runs: one worker owns a run while its heartbeat is fresh.

A run whose heartbeat is older than ``LEASE_S`` seconds may be acquired by another process.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

from django.db import Error
from django.db.models import Q
from django.utils import timezone

from agents import models
from rag.core.errors import ConflictError
from rag.services.threads import run_thread_sensitive

HEARTBEAT_S = 2.0
# So many seconds without a sign of life make a worker a dead one.
LEASE_S = 20.0
_STATUS = models.FlowRun.Status
log = logging.getLogger(__name__)


def acquire_lease(*, run: models.FlowRun) -> models.FlowRun:
    """Return the run as this caller's own; raise ConflictError while another works on it.

    Only runs that are running, or failed and are tried again, can be claimed.
    """
    worker = uuid.uuid4()
    free = models.FlowRun.objects.filter(pk=run.pk).filter(
        Q(status=_STATUS.ERROR) | (Q(status=_STATUS.RUNNING) & (Q(worker=None) | _is_expired()))
    )
    now = timezone.now()
    if not free.update(
        worker=worker, seen_at=now, status=_STATUS.RUNNING, error=None, ended_at=None
    ):
        raise ConflictError("The run is at work already, or has ended.", hint="Look at its status.")
    return models.FlowRun.objects.select_related("version__flow", "user", "replay_of").get(
        pk=run.pk
    )


def renew_leases(runs: Sequence[models.FlowRun]) -> dict[int, str]:
    """Renew the leases of several runs; return the status of those that are still one's own.

    A database that cannot be asked takes none away: only a longer silence does.
    """
    workers = [run.worker for run in runs]
    mine = models.FlowRun.objects.filter(pk__in=[run.pk for run in runs], worker__in=workers)
    try:
        mine.filter(status=_STATUS.RUNNING).update(seen_at=timezone.now())
        return dict(mine.values_list("pk", "status"))
    except Error as error:
        log.warning("runs gave no sign of life: %s", type(error).__name__)
        return dict.fromkeys((run.pk for run in runs), _STATUS.RUNNING)


def close_run(run: models.FlowRun, values: Mapping[str, Any]) -> bool:
    """Write the outcome of a run and end its lease; return False when the lease was lost."""
    mine = models.FlowRun.objects.filter(pk=run.pk, worker=run.worker)
    if values.get("status") != _STATUS.CANCELLED:
        mine = mine.exclude(status=_STATUS.CANCELLED)
    return bool(mine.update(worker=None, seen_at=None, **values))


def abandoned_run_ids() -> list[int]:
    """Return the ids of runs that are running, but whose lease has expired."""
    free = models.FlowRun.objects.filter(_is_expired(), status=_STATUS.RUNNING)
    return list(free.values_list("pk", flat=True))


def is_leased(run: models.FlowRun) -> bool:
    """Return whether a worker holds a lease that has not expired."""
    here = models.FlowRun.objects.filter(pk=run.pk, status=_STATUS.RUNNING)
    return here.exclude(Q(worker=None) | _is_expired()).exists()


def _is_expired() -> Q:
    late = timezone.now() - timedelta(seconds=LEASE_S)
    return Q(seen_at=None) | Q(seen_at__lt=late)


# Told that the run is another's now, or (True) that it was cancelled.
Lost = Callable[[bool], None]


@dataclass(slots=True)
class _Heartbeat:
    runs: dict[int, tuple[models.FlowRun, Lost]] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


_HEARTBEATS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Heartbeat] = WeakKeyDictionary()


def start_heartbeat(run: models.FlowRun, lost: Lost) -> None:
    """Renew the lease of ``run`` until ``stop_heartbeat``; call ``lost`` when it is not ours."""
    loop = asyncio.get_running_loop()
    heartbeat = _HEARTBEATS.setdefault(loop, _Heartbeat())
    heartbeat.runs[run.pk] = run, lost
    if heartbeat.task is None or heartbeat.task.done():
        # It beats for others too, after the request is over whose run came first.
        heartbeat.task = loop.create_task(_renew_loop(heartbeat), context=contextvars.Context())


def stop_heartbeat(run: models.FlowRun) -> None:
    """Renew the lease of ``run`` no more."""
    heartbeat = _HEARTBEATS[asyncio.get_running_loop()]
    heartbeat.runs.pop(run.pk, None)
    if not heartbeat.runs and heartbeat.task is not None:
        heartbeat.task.cancel()
        heartbeat.task = None


async def _renew_loop(heartbeat: _Heartbeat) -> None:
    while await asyncio.sleep(HEARTBEAT_S, True):
        asked = dict(heartbeat.runs)
        standing = await run_thread_sensitive(renew_leases, [run for run, _ in asked.values()])
        for pk, (_, lost) in asked.items():
            if pk in heartbeat.runs and standing.get(pk) != models.FlowRun.Status.RUNNING:
                heartbeat.runs.pop(pk)
                lost(standing.get(pk) == models.FlowRun.Status.CANCELLED)

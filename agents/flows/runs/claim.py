"""Whose run it is. In: a run. Out: the run, for one worker alone that gives signs of life.

A process that was killed gives none: another one may take its runs.

Signs of life of the runs on one event loop. In: runs. Out: nothing; who lost one is told.
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
from agents.runtime.db import in_db
from rag.core.errors import ConflictError

BEAT_S = 2.0
# So many seconds without a sign of life make a worker a dead one.
STALE_S = 20.0
_STATUS = models.FlowRun.Status
log = logging.getLogger(__name__)


def claim(*, run: models.FlowRun) -> models.FlowRun:
    """Return the run as this caller's own; raise ConflictError while another works on it.

    Only runs that are running, or failed and are tried again, can be claimed.
    """
    worker = uuid.uuid4()
    free = models.FlowRun.objects.filter(pk=run.pk).filter(
        Q(status=_STATUS.ERROR) | (Q(status=_STATUS.RUNNING) & (Q(worker=None) | _silent()))
    )
    now = timezone.now()
    if not free.update(
        worker=worker, seen_at=now, status=_STATUS.RUNNING, error=None, ended_at=None
    ):
        raise ConflictError("The run is at work already, or has ended.", hint="Look at its status.")
    return models.FlowRun.objects.select_related("version__flow", "user", "replay_of").get(
        pk=run.pk
    )


def beat(runs: Sequence[models.FlowRun]) -> dict[int, str]:
    """Give a sign of life for several runs; return how those stand that are still one's own.

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


def finish(run: models.FlowRun, values: Mapping[str, Any]) -> bool:
    """Write how a run stands when its worker leaves it; return False when it was not its own."""
    mine = models.FlowRun.objects.filter(pk=run.pk, worker=run.worker)
    if values.get("status") != _STATUS.CANCELLED:
        mine = mine.exclude(status=_STATUS.CANCELLED)
    return bool(mine.update(worker=None, seen_at=None, **values))


def abandoned_run_ids() -> list[int]:
    """Return the ids of runs that are running, but of which nobody has given a sign for long."""
    free = models.FlowRun.objects.filter(_silent(), status=_STATUS.RUNNING)
    return list(free.values_list("pk", flat=True))


def is_attended(run: models.FlowRun) -> bool:
    """Return whether a living worker is at it."""
    here = models.FlowRun.objects.filter(pk=run.pk, status=_STATUS.RUNNING)
    return here.exclude(Q(worker=None) | _silent()).exists()


def _silent() -> Q:
    late = timezone.now() - timedelta(seconds=STALE_S)
    return Q(seen_at=None) | Q(seen_at__lt=late)


# Told that the run is another's now, or (True) that it was cancelled.
Lost = Callable[[bool], None]


@dataclass(slots=True)
class _Pulse:
    runs: dict[int, tuple[models.FlowRun, Lost]] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


_PULSES: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pulse] = WeakKeyDictionary()


def keep_alive(run: models.FlowRun, lost: Lost) -> None:
    """Give signs of life for ``run`` until ``let_go``; call ``lost`` when it is no longer ours."""
    loop = asyncio.get_running_loop()
    pulse = _PULSES.setdefault(loop, _Pulse())
    pulse.runs[run.pk] = run, lost
    if pulse.task is None or pulse.task.done():
        # It beats for others too, after the request is over whose run came first.
        pulse.task = loop.create_task(_beat(pulse), context=contextvars.Context())


def let_go(run: models.FlowRun) -> None:
    """Give no more signs of life for ``run``."""
    pulse = _PULSES[asyncio.get_running_loop()]
    pulse.runs.pop(run.pk, None)
    if not pulse.runs and pulse.task is not None:
        pulse.task.cancel()
        pulse.task = None


async def _beat(pulse: _Pulse) -> None:
    while await asyncio.sleep(BEAT_S, True):
        asked = dict(pulse.runs)
        standing = await in_db(beat, [run for run, _ in asked.values()])
        for pk, (_, lost) in asked.items():
            if pk in pulse.runs and standing.get(pk) != models.FlowRun.Status.RUNNING:
                pulse.runs.pop(pk)
                lost(standing.get(pk) == models.FlowRun.Status.CANCELLED)

"""Signs of life of the runs on one event loop. In: runs. Out: nothing; who lost one is told."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from agents import models
from agents.services.claim import BEAT_S, beat
from agents.services.in_db import in_db

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

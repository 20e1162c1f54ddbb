"""Run status: waits for a flow run and returns its summary, or its events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any

from ninja import Status

from agents import models
from agents.api.flows.schemas import FlowRunOut
from agents.api.flows.serializers import localize_run
from agents.core.chat_events import ChatEvent
from agents.flows.runs.read import run_summary
from agents.flows.runs.worker import FlowWorker
from rag.api.http.schemas import PROBLEMS, Problem
from rag.core.access import Scope
from rag.services.threads import run_thread_sensitive

RUN_PROBLEMS = {**PROBLEMS, 409: Problem, 413: Problem}
RUN_RESPONSES = {200: FlowRunOut, 202: FlowRunOut, **RUN_PROBLEMS}
_RUNNING = models.FlowRun.Status.RUNNING


async def run_status(row: models.FlowRun, scope: Scope, wait_s: float) -> Status[dict[str, Any]]:
    """Wait for a run, at most so long, and return how it stands: 202 while it goes on."""
    try:
        async with asyncio.timeout(wait_s), aclosing(FlowWorker.replay(row.pk)) as events:
            async for _ in events:
                pass
    except TimeoutError:
        # It goes on; whoever asked looks again.
        pass
    told = await run_thread_sensitive(partial(_serialize, row.pk, scope))
    return Status(202 if told["status"] == _RUNNING else 200, localize_run(told))


def _serialize(run_id: int, scope: Scope) -> dict[str, Any]:
    rows = models.FlowRun.objects.select_related("version__flow", "replay_of", "user")
    return run_summary(run=rows.get(pk=run_id), scope=scope)


async def run_events(run_id: int, after: int) -> AsyncGenerator[ChatEvent, None]:
    """Yield a run's events after a number, each with its node in its data."""
    async with aclosing(FlowWorker.replay(run_id, after=after)) as events:
        async for event in events:
            yield ChatEvent(event.seq, event.kind, {**_place(event.node), **event.data})


def _place(node: str) -> dict[str, str]:
    return {"node": node} if node else {}

"""Flow run control by django-ninja: follow, cancel, resume, replay."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Router
from pydantic import Field

from agents import models
from agents.api.flows.run_status import RUN_PROBLEMS, RUN_RESPONSES, run_events, run_status
from agents.api.flows.schemas import ReplayBody, ResumeBody
from agents.api.http.sse import EVENT_STREAM, last_event_id, sse_response
from agents.flows.runs.control import cancel_flow, prepare_flow, rerun_flow
from agents.flows.runs.read import find_readable_run, find_run
from agents.flows.runs.worker import run_in_background
from agents.flows.versions.manage import find_flow
from rag.api.http.authentication import require_caller
from rag.core.access import Scope
from rag.services.threads import run_thread_sensitive

router = Router(tags=["flows"])


@router.get(
    "/{name}/runs/{key}/events",
    response={200: None, **RUN_PROBLEMS},
    summary="Follow a run",
    openapi_extra=EVENT_STREAM,
)
async def events(
    request: HttpRequest, name: str, key: str, after: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
) -> Any:
    """Send one's own run's events again, those behind `Last-Event-ID` or `after`, then new ones.

    It works on every server process, whichever one works on the run.
    """
    scope = require_caller(request, "read").scope
    row = await run_thread_sensitive(_named, name, key, scope, own=True)
    return sse_response(run_events(row.pk, last_event_id(request, after)))


@router.post("/{name}/runs/{key}/cancel", response=RUN_RESPONSES, summary="Cancel a run")
async def cancel(request: HttpRequest, name: str, key: str) -> Any:
    """Stop a run and its models' work; 409 when it has ended."""
    scope = require_caller(request, "read").scope
    row = await run_thread_sensitive(_named, name, key, scope)
    row = await run_thread_sensitive(cancel_flow, run=row, scope=scope)
    return await run_status(row, scope, 0)


@router.post(
    "/{name}/runs/{key}/resume", response=RUN_RESPONSES, summary="Decide; go on with a run"
)
async def resume(request: HttpRequest, name: str, key: str, body: ResumeBody) -> Any:
    """Give the decision that a run waits for, or go on with one that failed, from there.

    Decisions are for editors of the flow.
    """
    scope = require_caller(request, "write").scope
    row = await run_thread_sensitive(_named, name, key, scope)
    row = await run_thread_sensitive(
        prepare_flow, run=row, scope=scope, decision=body.decision, node=body.node
    )
    await run_in_background(run=row)
    return await run_status(row, scope, body.wait_s)


@router.post("/{name}/runs/{key}/replay", response=RUN_RESPONSES, summary="Do a run once more")
async def replay(request: HttpRequest, name: str, key: str, body: ReplayBody) -> Any:
    """Make a new run that begins where this one came to a node, and let it go on."""
    scope = require_caller(request, "read").scope
    row = await run_thread_sensitive(_named, name, key, scope)
    again = await run_thread_sensitive(
        rerun_flow, run=row, scope=scope, from_node=body.from_node, answers=body.answers
    )
    await run_in_background(run=again)
    return await run_status(again, scope, body.wait_s)


def _named(name: str, key: str, scope: Scope, *, own: bool = False) -> models.FlowRun:
    flow = find_flow(name=name, scope=scope)
    return (find_readable_run if own else find_run)(flow=flow, key=key, scope=scope)

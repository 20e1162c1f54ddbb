"""Following and steering runs of flows by django-ninja. In: a run's key. Out: how it stands."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Router
from pydantic import Field

from agents import models
from agents.api.flows.schemas import ReplayBody, ResumeBody
from agents.api.flows.standing import PROBLEMS, STANDING, STREAM, sent_events, standing
from agents.api.http.callers import caller_with
from agents.api.http.sse import last_seen, streamed
from agents.flows.runs.read import find_run, own_run
from agents.flows.runs.resume import begin_run
from agents.flows.runs.steer import cancel_flow, prepare_flow, replay_flow
from agents.flows.versions.settings import find_flow
from agents.runtime.db import in_db
from rag.core.access import Scope

router = Router(tags=["flows"])


@router.get(
    "/{name}/runs/{key}/events",
    response={200: None, **PROBLEMS},
    summary="Follow a run",
    openapi_extra=STREAM,
)
async def events(
    request: HttpRequest, name: str, key: str, after: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
) -> Any:
    """Send one's own run's events again, those behind `Last-Event-ID` or `after`, then new ones.

    It works on every server process, whichever one works on the run.
    """
    scope = caller_with(request, "read").scope
    row = await in_db(_named, name, key, scope, own=True)
    return streamed(sent_events(row.pk, last_seen(request, after)))


@router.post("/{name}/runs/{key}/cancel", response=STANDING, summary="Cancel a run")
async def cancel(request: HttpRequest, name: str, key: str) -> Any:
    """Stop a run and its models' work; 409 when it has ended."""
    scope = caller_with(request, "read").scope
    row = await in_db(_named, name, key, scope)
    row = await in_db(cancel_flow, run=row, scope=scope)
    return await standing(row, scope, 0)


@router.post("/{name}/runs/{key}/resume", response=STANDING, summary="Decide; go on with a run")
async def resume(request: HttpRequest, name: str, key: str, body: ResumeBody) -> Any:
    """Give the decision that a run waits for, or go on with one that failed, from there.

    Decisions are for editors of the flow.
    """
    scope = caller_with(request, "write").scope
    row = await in_db(_named, name, key, scope)
    row = await in_db(prepare_flow, run=row, scope=scope, decision=body.decision, node=body.node)
    await begin_run(run=row)
    return await standing(row, scope, body.wait_s)


@router.post("/{name}/runs/{key}/replay", response=STANDING, summary="Do a run once more")
async def replay(request: HttpRequest, name: str, key: str, body: ReplayBody) -> Any:
    """Make a new run that begins where this one came to a node, and let it go on."""
    scope = caller_with(request, "read").scope
    row = await in_db(_named, name, key, scope)
    again = await in_db(
        replay_flow, run=row, scope=scope, from_node=body.from_node, answers=body.answers
    )
    await begin_run(run=again)
    return await standing(again, scope, body.wait_s)


def _named(name: str, key: str, scope: Scope, *, own: bool = False) -> models.FlowRun:
    flow = find_flow(name=name, scope=scope)
    return (own_run if own else find_run)(flow=flow, key=key, scope=scope)

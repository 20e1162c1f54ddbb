"""Flow runs by django-ninja: start one; server-sent events or JSON."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from agents import models
from agents.api.flows.run_status import RUN_PROBLEMS, RUN_RESPONSES, run_events, run_status
from agents.api.flows.schemas import RunBody, StreamBody
from agents.api.http.sse import EVENT_STREAM, sse_response
from agents.flows.runs.start import RunRequest, create_run
from agents.flows.runs.worker import run_in_background
from agents.flows.versions.manage import find_flow, find_version
from rag.api.http.authentication import require_caller
from rag.core.access import Scope
from rag.services.threads import run_thread_sensitive

router = Router(tags=["flows"])


@router.post("/{name}/run", response=RUN_RESPONSES, summary="Run a flow")
async def run(request: HttpRequest, name: str, body: RunBody) -> Any:
    """Run a flow and return how the run stands: `done`, `paused`, `error` or `cancelled`.

    With 202 it is still `running`: look at it again, or follow its events. A run goes on when
    nobody waits for it any more.
    """
    scope = require_caller(request, "read").scope
    row = await run_thread_sensitive(_started, name, scope, body)
    await run_in_background(run=row)
    return await run_status(row, scope, body.wait_s)


@router.post(
    "/{name}/stream",
    response={200: None, **RUN_PROBLEMS},
    summary="Run a flow, told as it goes",
    openapi_extra=EVENT_STREAM,
)
async def stream(request: HttpRequest, name: str, body: StreamBody) -> Any:
    """Run a flow and send its events.

    `run_started` (run, flow, version), `node_started`, `token` (text), `model_answer`, `tool`,
    `rag_results`, `node_finished`, `route` (targets, condition), `node_failed`, then `paused`
    (reviews), `done` (answer, variables), `error` or `cancelled`; `ping` in between. All but the
    first and the last name their `node`. The tokens of a node begin anew with its `node_started`;
    what it answered in the end is the `response_content` of its `node_finished`. Whoever loses the
    connection asks for the rest below `runs`.
    """
    scope = require_caller(request, "read").scope
    row = await run_thread_sensitive(_started, name, scope, body)
    await run_in_background(run=row)
    return sse_response(run_events(row.pk, 0))


def _started(name: str, scope: Scope, body: StreamBody) -> models.FlowRun:
    flow = find_flow(name=name, scope=scope)
    version = None if body.version is None else find_version(flow=flow, number=body.version)
    return create_run(
        request=RunRequest(
            flow=flow,
            scope=scope,
            message=body.message,
            given=body.given,
            version=version,
            model=body.model,
        )
    )

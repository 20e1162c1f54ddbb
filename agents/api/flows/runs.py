"""Flow runs by django-ninja: start, follow, cancel, resume, replay; server-sent events or JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Router, Schema, Status
from pydantic import ConfigDict, Field

from agents import models
from agents.api.flows.serializers import localize_run
from agents.api.http.sse import EVENT_STREAM, last_event_id, sse_response
from agents.core.chat_events import ChatEvent
from agents.flows.runs.control import ReviewEdit, cancel_flow, prepare_flow, rerun_flow
from agents.flows.runs.read import find_readable_run, find_run, run_summary
from agents.flows.runs.start import RunRequest, create_run
from agents.flows.runs.trace import visit_trace
from agents.flows.runs.worker import FlowWorker, run_in_background
from agents.flows.versions.versions import find_flow, find_version
from rag.api.http.authentication import require_caller
from rag.api.http.idempotency import begun_once, repeatable
from rag.api.http.schemas import PROBLEMS, Problem
from rag.core.access import Scope
from rag.services.access import Caller
from rag.services.threads import run_thread_sensitive

MAX_WAIT_S = 600


class StreamBody(Schema):
    """A message for a flow, and what else its run is given."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"message": "How often is the pump serviced?"},
                {"message": "Prices?", "given": {"region": "north"}},
            ]
        },
    )

    message: str = Field(description="What the person says.")
    given: dict[str, Any] = Field(
        default_factory=dict,
        description="The flow's inputs, history_messages, session_id and trace_id; token_id (for "
        "whom) is for editors. Nothing that nodes set can be given. Runs with the same "
        "session_id are one conversation: the earlier ones are their history_messages.",
    )
    version: int | None = Field(
        None, ge=1, description="A version's number, for editors; else the active one."
    )
    model: str = Field(
        "", max_length=300, description="provider:model in place of the flow's own, for editors."
    )


class RunBody(StreamBody):
    """The same, for an answer in one piece."""

    wait_s: float = Field(
        60,
        ge=0,
        le=MAX_WAIT_S,
        description="Seconds to wait for the end; then the answer is 202 and the run goes on.",
    )


class ResumeBody(Schema):
    """How a run goes on: with a decision where it waits, without one where it failed."""

    model_config = ConfigDict(extra="forbid", strict=True)

    decision: str = Field("", max_length=200, description="One of the review's decisions.")
    node: str = Field("", max_length=400, description="Whose review; needed where several wait.")
    comment: str = Field("", max_length=4000, description="Under comment_key for nodes behind it.")
    values: dict[str, Any] = Field(
        default_factory=dict, description="New values for what is editable, of the same type."
    )
    wait_s: float = Field(60, ge=0, le=MAX_WAIT_S)


class ReplayBody(Schema):
    """From where a past run is done once more."""

    model_config = ConfigDict(extra="forbid", strict=True)

    from_node: str = Field(max_length=400, description="The first node that runs anew.")
    visit: int = Field(1, ge=1, description="At which of its visits, where a cycle came back.")
    answers: Literal["fresh", "recorded"] = Field(
        "fresh", description="recorded: models are not asked where the run has their answer."
    )
    wait_s: float = Field(60, ge=0, le=MAX_WAIT_S)


class FlowNodeOut(Schema):
    """One visit to a node. `status`: running, waiting, done, failed, or ended before it was."""

    node: str
    visit: int
    status: str
    started_at: str | None
    duration_ms: float | None
    input_tokens: int
    output_tokens: int
    models: list[str]
    n_tools: int = Field(description="Calls of tools.")
    n_results: int | None = Field(description="What its sources found; null where none was asked.")
    source_errors: dict[str, str]
    source_faults: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="The same as templates: message, hint, params."
    )
    route: dict[str, Any] | None = Field(
        description="targets, condition; missing variables and mistakes that made it false."
    )
    error: dict[str, Any] | None
    variables: dict[str, Any] = {}
    offset_ms: float | None = Field(None, description="From the start of the run.")
    costs: dict[str, str] = Field(
        default_factory=dict, description="By currency, as far as RAG_PRICES names the models."
    )
    response_content: str = Field("", description="What the node said, as people are shown it.")


class FlowVisitOut(FlowNodeOut):
    """All that is known of one visit; null what its reader may not see."""

    is_readable: bool
    is_incomplete: bool = Field(description="Some prompts were not kept: the run told too much.")
    inputs: dict[str, Any] | None = Field(description="The state that the visit began with.")
    inputs_missing: dict[str, Any] | None = Field(None, description="Why inputs is null.")
    outputs: dict[str, Any] | None = Field(description="What it added to the state.")
    calls: list[dict[str, Any]] = Field(
        description="Calls of models: messages as sent (n_before of the call before are left out), "
        "answer, tokens, cost, currency, duration_ms, error."
    )
    retrieval: dict[str, Any] | None = Field(
        description="query, passages with number and score, counts, errors of its sources."
    )
    tools: list[dict[str, Any]] = Field(description="tool, arguments, answer or error.")
    decision: str | None = Field(description="What a person decided.")


class FlowRunOut(Schema):
    """How a run stands. What it was told and found is null for all but its user and operators."""

    key: str
    flow: str
    version: int
    status: str = Field(description="running, paused, done, error or cancelled")
    message: str | None
    given: dict[str, Any] | None
    answer: str | None = Field(description="[n] is passage n.")
    outcome: str = Field(
        description="answered, partial, ungrounded, not_found, or uncited: nothing was looked up"
    )
    citations: list[dict[str, Any]] | None
    grounding: dict[str, Any] | None = Field(
        description="verdict, n_statements, n_found and statements: what the passages say of each"
    )
    passages: list[dict[str, Any]] | None = Field(
        description="What was found, numbered once for the run: doc_id, content, source, page."
    )
    variables: dict[str, Any] | None
    reviews: list[dict[str, Any]] = Field(
        description="node, visit, message, decisions, values (name, value, set_by, node), and "
        "editable: name, value"
    )
    error: dict[str, Any] | None = Field(description="code, message, hint, params")
    model: str
    replay_of: str | None
    has_recorded_answers: bool
    n_steps: int
    input_tokens: int
    output_tokens: int
    started_at: str
    ended_at: str | None
    duration_ms: float | None
    nodes: list[FlowNodeOut]


RUN_PROBLEMS = {**PROBLEMS, 409: Problem, 413: Problem}
RUN_RESPONSES = {200: FlowRunOut, 202: FlowRunOut, **RUN_PROBLEMS}
_RUNNING = models.FlowRun.Status.RUNNING
router = Router(tags=["flows"])


async def run_status(run_id: int, scope: Scope, wait_s: float) -> Status[dict[str, Any]]:
    """Wait for a run, at most so long, and return how it stands: 202 while it goes on."""
    try:
        async with asyncio.timeout(wait_s), aclosing(FlowWorker.replay(run_id)) as events:
            async for _ in events:
                pass
    except TimeoutError:
        # It goes on; whoever asked looks again.
        pass
    rows = models.FlowRun.objects.select_related("version__flow", "replay_of", "user")
    told = await run_thread_sensitive(lambda: run_summary(run=rows.get(pk=run_id), scope=scope))
    return Status(202 if told["status"] == _RUNNING else 200, localize_run(told))


async def run_events(run_id: int, after: int) -> AsyncGenerator[ChatEvent, None]:
    """Yield a run's events after a number, each with its node in its data."""
    async with aclosing(FlowWorker.replay(run_id, after=after)) as events:
        async for event in events:
            place = {"node": event.node} if event.node else {}
            yield ChatEvent(event.seq, event.kind, {**place, **event.data})


@router.post("/{name}/run", response=RUN_RESPONSES, summary="Run a flow")
async def run(request: HttpRequest, name: str, body: RunBody) -> Any:
    """Run a flow and return how the run stands: `done`, `paused`, `error` or `cancelled`.

    With 202 it is still `running`: look at it again, or follow its events. A run goes on when
    nobody waits for it any more. With `Idempotency-Key` it is run once; sent again one gets that
    run.
    """
    caller = require_caller(request, "read")
    run_id = await _begun(request, caller, name, body)
    return await run_status(run_id, caller.scope, body.wait_s)


@router.post(
    "/{name}/stream",
    response={200: None, **RUN_PROBLEMS},
    summary="Run a flow, told as it goes",
    openapi_extra=EVENT_STREAM,
)
async def stream(request: HttpRequest, name: str, body: StreamBody) -> Any:
    """Run a flow and send its events.

    `run_started` (run, flow, version), `node_started`, `token` (text for people), `draft` (text for
    the flow: JSON that decides, calls of tools, what is written once more), `model_answer`,
    `model_failed`, `tool` (with `answer` or `error`), `rag_results`, `node_finished`, `route`
    (targets, condition), `node_failed`, then `paused` (reviews), `done` (answer, outcome,
    citations, grounding, variables), `error` or `cancelled`; `ping` in between. All but the first
    and the last name their `node`. What `rag_results`, `tool` and `passages` found is numbered in
    `passages`: `[n]` in a text of any node is one of them, and `node_finished` has `citations` and
    `grounding` of its text. The tokens of a node begin anew with its `node_started`; what it
    answered in the end is the `response_content` of its `node_finished`. Whoever loses the
    connection asks for the rest below `runs`.
    """
    caller = require_caller(request, "read")
    return sse_response(run_events(await _begun(request, caller, name, body), 0))


async def _begun(request: HttpRequest, caller: Caller, name: str, body: StreamBody) -> int:
    """Return the id of a new run, or of the one that this request has begun before."""

    async def begin() -> dict[str, Any]:
        row = await run_thread_sensitive(_started, name, caller.scope, body)
        await run_in_background(run=row)
        return {"id": row.pk}

    begun: dict[str, Any] = await begun_once(repeatable(request, caller), begin)
    return int(begun["id"])


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


@router.get(
    "/{name}/runs/{key}/visits/{node}/{visit}",
    response={200: FlowVisitOut, **RUN_PROBLEMS},
    summary="Look into a node of a run",
)
async def visit(request: HttpRequest, name: str, key: str, node: str, visit: int) -> Any:
    """Return what a node was given, what its models were sent and answered, what was found.

    And by which condition, asked of which values, the run went on. Words are for the run's user.
    """
    scope = require_caller(request, "read").scope
    row = await run_thread_sensitive(_named, name, key, scope)
    return await run_thread_sensitive(visit_trace, run=row, scope=scope, node=node, visit=visit)


@router.post("/{name}/runs/{key}/cancel", response=RUN_RESPONSES, summary="Cancel a run")
async def cancel(request: HttpRequest, name: str, key: str) -> Any:
    """Stop a run and its models' work; 409 when it has ended."""
    scope = require_caller(request, "read").scope
    row = await run_thread_sensitive(_named, name, key, scope)
    row = await run_thread_sensitive(cancel_flow, run=row, scope=scope)
    return await run_status(row.pk, scope, 0)


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
        prepare_flow,
        run=row,
        scope=scope,
        decision=body.decision,
        node=body.node,
        edit=ReviewEdit(body.comment, body.values),
    )
    await run_in_background(run=row)
    return await run_status(row.pk, scope, body.wait_s)


@router.post("/{name}/runs/{key}/replay", response=RUN_RESPONSES, summary="Do a run once more")
async def replay(request: HttpRequest, name: str, key: str, body: ReplayBody) -> Any:
    """Make a new run that begins where this one came to a node, and let it go on."""
    scope = require_caller(request, "read").scope
    row = await run_thread_sensitive(_named, name, key, scope)
    again = await run_thread_sensitive(
        rerun_flow,
        run=row,
        scope=scope,
        from_node=body.from_node,
        visit=body.visit,
        answers=body.answers,
    )
    await run_in_background(run=again)
    return await run_status(again.pk, scope, body.wait_s)


def _named(name: str, key: str, scope: Scope, *, own: bool = False) -> models.FlowRun:
    flow = find_flow(name=name, scope=scope)
    return (find_readable_run if own else find_run)(flow=flow, key=key, scope=scope)

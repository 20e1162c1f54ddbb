"""Starting flow runs: creates the row, then runs it to its end or streams its events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from agents import models
from agents.core.chat_events import FlowEvent
from agents.core.state import to_storable
from agents.flows.definition.state import check_given, initial_state
from agents.flows.runs.conversation import run_conversation
from agents.flows.runs.flow_exposure import flow_exposure
from agents.flows.runs.worker import FlowWorker, run_in_background, run_to_end
from agents.flows.versions.load import compiled_graph
from agents.flows.versions.versions import active_version
from agents.runtime.outbound import check_exposure
from rag.core.access import Scope, may_edit, may_read
from rag.core.errors import ForbiddenError, NotFoundError
from rag.services.threads import run_thread_sensitive
from rag.services.wiring import registry as wiring


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a run is given: a message, the flow's inputs, a history, a model instead of all.

    ``version`` None is the active one. ``given`` may name whom it is for (``token_id``) only for
    editors of the flow; everybody else acts for themselves.
    """

    flow: models.Flow
    scope: Scope
    message: str
    given: Mapping[str, Any] = field(default_factory=dict)
    version: models.FlowVersion | None = None
    model: str = ""


def create_run(*, request: RunRequest) -> models.FlowRun:
    """Return a new run, to be continued; raise for wrong input, none is made then."""
    scope, facts = request.scope, request.flow.facts
    if not may_read(scope, facts):
        raise NotFoundError("There is no flow “{name}”.", name=request.flow.name)
    is_editor = may_edit(scope, facts)
    if (request.version or request.model or "token_id" in request.given) and not is_editor:
        raise ForbiddenError(
            "Only editors of the flow may choose its version, its model or for whom it acts.",
            hint="Leave out version, model and {field}.",
            field="token_id",
        )
    version = request.version or active_version(flow=request.flow)
    if version.flow_id != request.flow.pk:
        raise NotFoundError("There is no flow “{name}”.", name=version.flow.name)
    if request.model:
        # A model that nobody knows is told before there is a run.
        wiring.chat_model(request.model)
    graph = compiled_graph(version=version)
    check_given(graph.flow.definition, request.given)
    whom = {} if scope.user_id is None else {"token_id": str(scope.user_id)}
    definition = graph.flow.definition
    start = initial_state(definition, request.message, {**whom, **request.given})
    told = run_conversation(flow=request.flow, definition=definition, scope=scope, state=start)
    exposure = flow_exposure(
        flow=request.flow, definition=graph.flow, scope=scope, chunk_ids=told.chunk_ids
    )
    check_exposure(subject=request.flow, exposure=exposure)
    return models.FlowRun.objects.create(
        version=version,
        user_id=scope.user_id,
        is_by_operator=scope.is_operator,
        start=to_storable({**start, **told.fields}),
        chunk_ids=sorted(told.chunk_ids),
        model=request.model,
        seen_at=timezone.now(),
        key_id=scope.key_id,
    )


async def arun_flow(*, request: RunRequest) -> models.FlowRun:
    """Return the run when it is done, paused, failed or cancelled; ``error`` says what failed."""
    run = await run_thread_sensitive(create_run, request=request)
    return await run_to_end(run=run)


async def stream_flow(*, request: RunRequest) -> AsyncIterator[FlowEvent]:
    """Yield a run's events as they come; who leaves early does not end the run.

    Raises before the first event for wrong input; what fails later is the event ``error``.
    """
    run = await run_thread_sensitive(create_run, request=request)
    await run_in_background(run=run)
    async for event in FlowWorker.replay(run.pk):
        yield event

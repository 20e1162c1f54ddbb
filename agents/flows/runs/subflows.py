"""Sub-flows of runs: another flow's version, run at a place inside the run, with its own rights.

Whoever runs the outer flow must be able to run the inner one, and the outbound rule is asked for
the inner one as well, for all that the run has found until then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agents import models
from agents.core.nodes import FlowOutcome
from agents.flows.definition.definition import Flow
from agents.flows.definition.state import check_given, initial_state, last_turn
from agents.flows.engine.inner_log import InnerLog, RunPlace
from agents.flows.runs.flow_exposure import flow_exposure
from agents.flows.versions.load import compiled_graph
from agents.flows.versions.versions import active_version, find_flow
from agents.runtime.outbound import check_exposure
from rag.core.access import Scope
from rag.core.errors import LimitError
from rag.services.threads import run_thread_sensitive

if TYPE_CHECKING:
    from agents.flows.engine.graph import FlowGraph
    from agents.flows.runs.event_log import RunEventLog

MAX_DEPTH = 8
# Who acts, in which conversation, and what is remembered of it.
_CARRIED = ("token_id", "session_id", "trace_id", "history_messages", "recalled_memories")


@dataclass(frozen=True, slots=True)
class SubflowCall:
    """What a node runs: a flow by its name, told a message and inputs, for a state."""

    name: str
    message: str
    given: Mapping[str, Any]
    state: Mapping[str, Any]


async def run_subflow(
    log: RunEventLog, place: RunPlace, visit: tuple[str, int], call: SubflowCall
) -> FlowOutcome | None:
    """Return what a flow comes to, None while a person must decide in it.

    ``place`` is that inside the visit. A run that is continued takes the version that it began.
    """
    check_depth(place.flows, call.name)
    found = {pk for one in log.passages.all for pk in one.hit.chunk_ids}
    version_id = log.subflows.get(visit)
    version, graph = await run_thread_sensitive(
        _checked, call.name, version_id, log.scope, {*found, *log.run.chunk_ids}
    )
    if version_id is None:
        told = {"flow": call.name, "version": version.number}
        await log.append("subflow", *visit, data=told, record={"version_id": version.pk})
    check_given(graph.flow.definition, call.given)
    carried = {name: call.state[name] for name in _CARRIED if call.state.get(name)}
    start = initial_state(graph.flow.definition, call.message, {**carried, **call.given})
    inside = replace(place, flows=(*place.flows, call.name), prompts=version.prompts)
    end = await graph.run(start, InnerLog(log, inside))
    if end.paused:
        return None
    return FlowOutcome(last_turn(end.state), end.state.get("edges_var") or {})


def check_depth(flows: tuple[str, ...], name: str) -> None:
    """Raise LimitError for a flow that runs itself, by whatever way, or too many in each other."""
    path = " → ".join((*flows, name))
    if name in flows:
        raise LimitError("The flow “{name}” runs itself: {path}.", name=name, path=path)
    if len(flows) >= MAX_DEPTH:
        raise LimitError(
            "More than {limit} flows run in each other: {path}.", limit=MAX_DEPTH, path=path
        )


def _checked(
    name: str, version_id: int | None, scope: Scope, chunk_ids: Collection[int]
) -> tuple[models.FlowVersion, FlowGraph]:
    flow = find_flow(name=name, scope=scope)
    version = active_version(flow=flow) if version_id is None else flow.versions.get(pk=version_id)
    graph = compiled_graph(version=version)
    definition: Flow = graph.flow
    exposure = flow_exposure(flow=flow, definition=definition, scope=scope, chunk_ids=chunk_ids)
    check_exposure(subject=flow, exposure=exposure)
    return version, graph

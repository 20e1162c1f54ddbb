"""Flow graph: compiles a flow to a LangGraph graph and runs it on a state and a log.

A visit to a node joins branches, runs the node or takes its recorded update, and chooses the edge.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

from langgraph.errors import GraphRecursionError
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command
from langsmith import tracing_context

from agents.core.nodes import Node, Pause, RunLog, Waiting, node_type
from agents.core.source_configs import RagNodeConfig
from agents.core.state import REDUCERS, merge_results, to_storable
from agents.flows.definition.check_graph import strict_ancestors_of
from agents.flows.definition.conditions import choose_edge
from agents.flows.definition.definition import END, FAILURE, Flow, FlowDefinition
from agents.flows.definition.state import condition_values
from rag.core.errors import (
    CancelledError,
    ConfigurationError,
    LimitError,
    ProviderTimeoutError,
    RAGError,
)

# The one channel of the graph: of each more the engine asks for its value at every node.
STANDING = "standing"


@dataclass(frozen=True, slots=True)
class FrontierStep:
    """Which nodes are at work in a step, and which wait for a person."""

    number: int
    active: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()


def merge_steps(old: FrontierStep, new: FrontierStep) -> FrontierStep:
    if new.number > old.number:
        return new
    paused = dict.fromkeys((*old.paused, *new.paused))
    return FrontierStep(new.number, tuple(dict.fromkeys((*old.active, *new.active))), tuple(paused))


@dataclass(frozen=True, slots=True)
class RunStanding:
    """Where a run stands: its state, or what one of several nodes adds to it, and its step."""

    state: Mapping[str, Any]
    step: FrontierStep
    is_update: bool = False


# Who wants to know what each visit is given: node, visit, state.
SeenVisit = Callable[[str, int, Mapping[str, Any]], None]


@dataclass(slots=True)
class GraphContext:
    """What one run carries through the graph besides its state."""

    log: RunLog
    seen: SeenVisit | None = None
    visits: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """The engine's names of nodes, the state's reducers, and what each node waits for."""

    ids: Mapping[str, str]
    reducers: Mapping[str, Any]
    before: Mapping[str, frozenset[str]]
    visits: dict[str, NodeVisit] = field(default_factory=dict)

    def merge_state(self, state: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
        """Return a state with what a node adds to it."""
        changed = {key: self.reducers[key](state.get(key), one) for key, one in update.items()}
        return {**state, **changed}

    def merge(self, old: RunStanding, new: RunStanding) -> RunStanding:
        """Return where a run stands after one of the nodes of a step."""
        if not new.is_update:
            return new
        return RunStanding(self.merge_state(old.state, new.state), merge_steps(old.step, new.step))


class NodeVisit:
    """One node of one graph, for any number of runs."""

    def __init__(self, flow: Flow, name: str, node: Node, plan: GraphPlan) -> None:
        self._flow, self._name, self._node = flow, name, node
        self._plan, self._before = plan, plan.before[name]
        self._edges = [edge for edge in flow.definition.edges if edge.source == name]
        self._may_fail = any(edge.condition.strip() == FAILURE for edge in self._edges)

    async def run(self, given: dict[str, Any], runtime: Runtime[GraphContext]) -> Command[Any]:
        """Return the node's update and where the run goes on."""
        # The engine disassembles this method for every node: the shorter, the faster it compiles.
        return await self._go(given[STANDING], runtime.context)

    async def _go(self, standing: RunStanding, context: GraphContext) -> Command[Any]:
        if len(standing.step.active) > 1:
            return self._command(await self._visited(standing, context))
        # While nothing else is at work the run goes on here: a step of the engine costs more
        # than all the rest of a node.
        visit = self
        while True:
            added = await visit._visited(standing, context)
            state = self._plan.merge_state(standing.state, added.state)
            standing = RunStanding(state, added.step)
            if len(standing.step.active) != 1:
                return self._command(standing)
            visit = self._plan.visits[standing.step.active[0]]

    async def _visited(self, standing: RunStanding, context: GraphContext) -> RunStanding:
        """Return what a visit adds to the state, and who is at work after it."""
        # A node may keep or change what it is given.
        state, step = dict(standing.state), standing.step
        if self._before.intersection(step.active):
            return self._added(step, {}, (self._name,))
        if self._before.intersection(step.paused):
            # It is reached anew once somebody has decided.
            return self._added(step, {}, ())
        context.visits[self._name] += 1
        if context.visits.total() > self._flow.definition.max_steps:
            raise node_limit_error(self._flow.definition)
        visit = context.visits[self._name]
        if context.seen:
            context.seen(self._name, visit, state)
        is_known, update = await self._result(state, context.log, visit)
        if isinstance(update, Pause):
            if not isinstance(update, Waiting):
                await context.log.paused(self._name, visit, update)
            return self._added(step, {}, (), (self._name,))
        values = condition_values(self._plan.merge_state(state, update))
        route = choose_edge(self._name, self._edges, values)
        if not is_known:
            await context.log.routed(self._name, visit, route.as_dict(), route.tests)
        targets = tuple(target for target in route.targets if target != END)
        return self._added(step, update, targets)

    async def _result(
        self, state: Mapping[str, Any], log: RunLog, visit: int
    ) -> tuple[bool, dict[str, Any] | Pause]:
        recorded = log.recorded(self._name, visit)
        if recorded is not None:
            return True, recorded if isinstance(recorded, Pause) else dict(recorded)
        await log.started(self._name, visit)
        try:
            found = await self._answer(state, log, visit)
            update = found if isinstance(found, Pause) else self._checked(found)
        except RAGError as error:
            if not self._goes_on(error, log, visit):
                await log.failed(self._name, visit)
                raise
            update = {"edges_var": {"failed_node": self._name, "failure": str(error)}}
        else:
            failed = (state.get("edges_var") or {}).get("failed_node")
            if self._may_fail and failed == self._name and not isinstance(update, Pause):
                # It failed when it was reached before.
                kept = update.get("edges_var") or {}
                update["edges_var"] = {"failed_node": None, "failure": None, **kept}
        if not isinstance(update, Pause):
            await log.finished(self._name, visit, update)
        return False, update

    def _goes_on(self, error: RAGError, log: RunLog, visit: int) -> bool:
        """Return whether an edge leads on from a failure; faults of the flow itself have none."""
        is_fault = isinstance(error, (CancelledError, ConfigurationError))
        is_in_time = log.node_run(self._name, visit).deadline.remaining_s > 0
        return self._may_fail and is_in_time and not is_fault

    async def _answer(
        self, state: Mapping[str, Any], log: RunLog, visit: int
    ) -> dict[str, Any] | Pause:
        lent = log.node_run(self._name, visit)
        lent.deadline.check()
        try:
            async with asyncio.timeout(lent.deadline.remaining_s):
                return await self._node.run(state, self._flow.configs[self._name], lent)
        except TimeoutError:
            raise ProviderTimeoutError(
                "The run took longer than {timeout_s} s.",
                hint="Allow more by timeout_s.",
                timeout_s=f"{lent.deadline.timeout_s:g}",
            ) from None

    def _checked(self, update: Mapping[str, Any]) -> dict[str, Any]:
        for key in update:
            if key not in self._plan.reducers:
                raise ConfigurationError(
                    "The node “{name}” writes “{key}”, which the state does not have.",
                    name=self._name,
                    key=key,
                )
        return to_storable(update)

    def _added(
        self,
        step: FrontierStep,
        update: Mapping[str, Any],
        targets: tuple[str, ...],
        paused: tuple[str, ...] = (),
    ) -> RunStanding:
        following = FrontierStep(step.number + 1, targets, (*step.paused, *paused))
        return RunStanding(update, following, is_update=True)

    def _command(self, standing: RunStanding) -> Command[Any]:
        goto = [self._plan.ids[target] for target in standing.step.active]
        return Command(update={STANDING: standing}, goto=goto)


def node_limit_error(flow: FlowDefinition) -> LimitError:
    return LimitError(
        "The flow “{name}” ran more than {limit} nodes.",
        hint="Raise max_steps, or end its cycle.",
        name=flow.name,
        limit=flow.max_steps,
    )


@dataclass(frozen=True, slots=True)
class FlowEnd:
    """The state where a run stands, and the nodes that wait for a person (none: it is done)."""

    state: dict[str, Any]
    paused: tuple[str, ...] = ()


class FlowGraph:
    """A compiled flow, for any number of runs at once. Made by ``GraphBuilder``."""

    def __init__(self, flow: Flow, compiled: Any, keys: frozenset[str]) -> None:
        self.flow = flow
        self._compiled = compiled
        self._keys = keys

    async def run(
        self, state: Mapping[str, Any], log: RunLog, seen: SeenVisit | None = None
    ) -> FlowEnd:
        """Run from the entry; visits that ``log`` has recorded are not repeated.

        ``seen`` is told what each visit is given.

        Raises LimitError after ``max_steps`` nodes and what nodes raise.
        """
        definition = self.flow.definition
        empty: dict[str, Any] = {key: {} for key in self._keys}
        step = FrontierStep(0, (definition.entry_node,))
        try:
            # What the environment says about tracing must not send a state to anybody.
            with tracing_context(enabled=False):
                end = await self._compiled.ainvoke(
                    {STANDING: RunStanding({**empty, **state}, step)},
                    {"recursion_limit": definition.max_steps + 2},
                    context=GraphContext(log, seen),
                )
        except GraphRecursionError:
            # Nodes are counted one by one; this is the engine's own bound behind that.
            raise node_limit_error(definition) from None
        standing: RunStanding = end[STANDING]
        return FlowEnd(dict(standing.state), standing.step.paused)


class GraphBuilder:
    """Makes a graph of a flow whose names are sound; node types come from the registry."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        # The engine merges what ran side by side by the order of names: that of the file.
        numbered = enumerate(flow.definition.nodes)
        self._ids = {node.name: f"n{number:04d}" for number, node in numbered}
        configs = [one for one in flow.configs.values() if isinstance(one, RagNodeConfig)]
        self._keys = frozenset(one.result_key for one in configs) - REDUCERS.keys()

    def build(self) -> FlowGraph:
        """Return the graph; raise UnknownNameError for a type of node that is not there."""
        reducers = {**REDUCERS, **dict.fromkeys(self._keys, merge_results)}
        plan = GraphPlan(self._ids, reducers, strict_ancestors_of(self._flow.definition))
        # Any, so that the engine makes up no first value.
        fields: dict[str, Any] = {STANDING: Annotated[Any, plan.merge]}
        schema = TypedDict("State", fields)  # type: ignore[misc]
        graph: Any = StateGraph(schema, context_schema=GraphContext)
        for node in self._flow.definition.nodes:
            visit = NodeVisit(self._flow, node.name, node_type(node.type)(), plan)
            plan.visits[node.name] = visit
            graph.add_node(self._ids[node.name], visit.run)
        graph.add_edge(START, self._ids[self._flow.definition.entry_node])
        return FlowGraph(self._flow, graph.compile(), self._keys)

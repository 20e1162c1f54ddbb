"""Node visit: joins branches, runs a node or takes its recorded update, chooses the next edge."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import Command

from agents.core.json_state import to_storable
from agents.core.nodes import Node, Pause, RunLog
from agents.flows.definition.choose_edge import choose_edge
from agents.flows.definition.definition import END, Flow, FlowDefinition
from agents.flows.definition.state import condition_values
from rag.core.errors import ConfigurationError, LimitError, ProviderTimeoutError, RAGError

# No field of a state can have this name.
STEP = "#step"


@dataclass(frozen=True, slots=True)
class FrontierStep:
    """Which nodes are at work in a step, and which wait for a person."""

    number: int
    active: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()


def merge_steps(old: FrontierStep | None, new: FrontierStep) -> FrontierStep:
    if old is None or new.number > old.number:
        return new
    paused = dict.fromkeys((*old.paused, *new.paused))
    return FrontierStep(new.number, tuple(dict.fromkeys((*old.active, *new.active))), tuple(paused))


@dataclass(slots=True)
class GraphContext:
    """What one run carries through the graph besides its state."""

    log: RunLog
    visits: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """The engine's names of nodes, the state's reducers, and what each node waits for."""

    ids: Mapping[str, str]
    reducers: Mapping[str, Any]
    before: Mapping[str, frozenset[str]]


class NodeVisit:
    """One node of one graph, for any number of runs."""

    def __init__(self, flow: Flow, name: str, node: Node, plan: GraphPlan) -> None:
        self._flow, self._name, self._node = flow, name, node
        self._ids, self._reducers, self._before = plan.ids, plan.reducers, plan.before[name]
        self._edges = [edge for edge in flow.definition.edges if edge.source == name]

    async def run(self, state: dict[str, Any], runtime: Runtime[GraphContext]) -> Command[Any]:
        """Return the node's update and where the run goes on."""
        # The engine disassembles this method for every node: the shorter, the faster it compiles.
        return await self._go(state, runtime.context)

    async def _go(self, state: dict[str, Any], context: GraphContext) -> Command[Any]:
        step: FrontierStep = state.pop(STEP)
        if self._before.intersection(step.active):
            return self._command(step, {}, (self._name,))
        if self._before.intersection(step.paused):
            # It is reached anew once somebody has decided.
            return self._command(step, {}, ())
        context.visits[self._name] += 1
        if context.visits.total() > self._flow.definition.max_steps:
            raise node_limit_error(self._flow.definition)
        visit = context.visits[self._name]
        is_known, update = await self._result(state, context.log, visit)
        if isinstance(update, Pause):
            await context.log.paused(self._name, visit, update)
            return self._command(step, {}, (), (self._name,))
        values = condition_values(self._with(state, update))
        route = choose_edge(self._name, self._edges, values)
        if not is_known:
            await context.log.routed(self._name, visit, route.as_dict())
        targets = tuple(target for target in route.targets if target != END)
        return self._command(step, update, targets)

    async def _result(
        self, state: Mapping[str, Any], log: RunLog, visit: int
    ) -> tuple[bool, dict[str, Any] | Pause]:
        recorded = log.recorded(self._name, visit)
        if recorded is not None:
            return True, dict(recorded)
        await log.started(self._name, visit)
        try:
            found = await self._answer(state, log, visit)
            update = found if isinstance(found, Pause) else self._checked(found)
        except RAGError:
            await log.failed(self._name, visit)
            raise
        if not isinstance(update, Pause):
            await log.finished(self._name, visit, update)
        return False, update

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
            if key not in self._reducers:
                raise ConfigurationError(
                    "The node “{name}” writes “{key}”, which the state does not have.",
                    name=self._name,
                    key=key,
                )
        return to_storable(update)

    def _with(self, state: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
        changed = {key: self._reducers[key](state.get(key), one) for key, one in update.items()}
        return {**state, **changed}

    def _command(
        self,
        step: FrontierStep,
        update: Mapping[str, Any],
        targets: tuple[str, ...],
        paused: tuple[str, ...] = (),
    ) -> Command[Any]:
        following = FrontierStep(step.number + 1, targets, (*step.paused, *paused))
        goto = [self._ids[target] for target in targets]
        return Command(update={**update, STEP: following}, goto=goto)


def node_limit_error(flow: FlowDefinition) -> LimitError:
    return LimitError(
        "The flow “{name}” ran more than {limit} nodes.",
        hint="Raise max_steps, or end its cycle.",
        name=flow.name,
        limit=flow.max_steps,
    )

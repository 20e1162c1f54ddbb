"""Flow graph: compiles a flow to a LangGraph graph and runs it on a state and a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict, cast

from langgraph.errors import GraphRecursionError
from langgraph.graph import START, StateGraph
from langsmith import tracing_context

from agents.core.nodes import RunLog, node_type
from agents.core.source_configs import RagNodeConfig
from agents.core.state import REDUCERS, merge_results
from agents.flows.definition.check_graph import strict_ancestors_of
from agents.flows.definition.definition import Flow
from agents.flows.engine.visit import (
    STEP,
    FrontierStep,
    GraphContext,
    GraphPlan,
    NodeVisit,
    merge_steps,
    node_limit_error,
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

    async def run(self, state: Mapping[str, Any], log: RunLog) -> FlowEnd:
        """Run from the entry; visits that ``log`` has recorded are not repeated.

        Raises LimitError after ``max_steps`` nodes and what nodes raise.
        """
        definition = self.flow.definition
        empty: dict[str, Any] = {key: {} for key in self._keys}
        step = {STEP: FrontierStep(0, (definition.entry_node,))}
        try:
            # What the environment says about tracing must not send a state to anybody.
            with tracing_context(enabled=False):
                end = await self._compiled.ainvoke(
                    {**empty, **state, **step},
                    {"recursion_limit": definition.max_steps + 2},
                    context=GraphContext(log),
                )
        except GraphRecursionError:
            # Nodes are counted one by one; this is the engine's own bound behind that.
            raise node_limit_error(definition) from None
        paused = cast(FrontierStep, end[STEP]).paused
        return FlowEnd({key: end[key] for key in end if key != STEP}, paused)


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
        # Any, so that the engine makes up no first values.
        fields: dict[str, Any] = {
            name: Annotated[Any, reducer] for name, reducer in reducers.items()
        }
        fields[STEP] = Annotated[Any, merge_steps]
        schema = TypedDict("State", fields, total=False)  # type: ignore[misc]
        graph: Any = StateGraph(schema, context_schema=GraphContext)
        plan = GraphPlan(self._ids, reducers, strict_ancestors_of(self._flow.definition))
        for node in self._flow.definition.nodes:
            visit = NodeVisit(self._flow, node.name, node_type(node.type)(), plan)
            graph.add_node(self._ids[node.name], visit.run)
        graph.add_edge(START, self._ids[self._flow.definition.entry_node])
        return FlowGraph(self._flow, graph.compile(), self._keys)

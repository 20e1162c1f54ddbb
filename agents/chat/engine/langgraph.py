"""LangGraph engine: runs a pipeline as a compiled graph."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypedDict

from langgraph.errors import GraphRecursionError
from langgraph.graph import END as GRAPH_END
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langsmith import tracing_context

from agents.chat.engine.plain import MAX_STAGES, stage_limit_error
from agents.core.pipeline import (
    Pipeline,
    PipelineRun,
    PipelineState,
    Step,
    run_stage,
)


def _changed(old: Any, new: Any) -> Any:
    return {**old, **new}


class _State(TypedDict, total=False):
    # One value for the engine, which looks after each of thirty at every step.
    fields: Annotated[Any, _changed]


class GraphEngine:
    """Runs a pipeline on LangGraph; compiled once, for any number of runs."""

    name = "langgraph"

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self._compiled = _graph(pipeline).compile()

    async def run(self, state: PipelineState, run: PipelineRun) -> PipelineState:
        """Return the state at the end; raise what a step without a fallback raises."""
        try:
            # What the environment says about tracing must not send a state to anybody.
            with tracing_context(enabled=False):
                end = await self._compiled.ainvoke(
                    {"fields": state}, {"recursion_limit": MAX_STAGES}, context=run
                )
        except GraphRecursionError:
            raise stage_limit_error() from None
        found: PipelineState = end["fields"]
        return found


def _graph(pipeline: Pipeline) -> Any:
    graph: Any = StateGraph(_State, context_schema=object)
    names = [" + ".join(step.name for step in stage) for stage in pipeline.stages] + [GRAPH_END]
    for name, stage in zip(names, pipeline.stages, strict=False):
        graph.add_node(name, _node(stage))
    for number, name in enumerate([START, *names[:-1]], start=-1):
        ways = pipeline.possible_next(number)
        if pipeline.is_decided(number):
            found = {way: names[way] for way in ways}
            graph.add_conditional_edges(name, _choice(pipeline, number), found)
        else:
            graph.add_edge(name, names[ways[0]])
    return graph


def _node(stage: tuple[Step, ...]) -> Callable[..., Awaitable[Any]]:
    # Any: the engine looks up what is annotated, and hits are known to type checkers alone. Steps
    # side by side are one node: three turns of the engine fewer, half a millisecond each.
    async def visit(state: Any, runtime: Runtime[Any]) -> Any:
        return {"fields": await run_stage(stage, state["fields"], runtime.context)}

    return visit


def _choice(pipeline: Pipeline, number: int) -> Callable[[Any], Awaitable[int]]:
    # What is not awaitable the engine calls on another thread.
    async def choose(state: Any) -> int:
        return pipeline.next_stage(number, state["fields"])

    return choose

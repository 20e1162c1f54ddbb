"""A pipeline as a LangGraph graph. In: a pipeline, a state. Out: the state at its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypedDict

from langgraph.errors import GraphRecursionError
from langgraph.graph import END as GRAPH_END
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langsmith import tracing_context

from agents.core.pipeline import END, Branch, Pipeline, PipelineRun, PipelineState, Step
from agents.core.pipeline_step import next_step, run_step
from agents.graphs.plain import MAX_STAGES, too_many_stages


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
                end: PipelineState = await self._compiled.ainvoke(
                    state, {"recursion_limit": 2 * MAX_STAGES}, context=run
                )
        except GraphRecursionError:
            raise too_many_stages() from None
        return end


def _graph(pipeline: Pipeline) -> Any:
    # Any, so that the engine makes up no first values; what was written last stays.
    fields = dict.fromkeys(PipelineState.__annotations__, Annotated[Any, _last])
    schema = TypedDict("State", fields, total=False)  # type: ignore[misc]
    graph: Any = StateGraph(schema, context_schema=object)
    for number, stage in enumerate(pipeline.stages):
        for step in stage:
            graph.add_node(step.name, _node(step))
        if len(stage) > 1:
            graph.add_node(_gate(number), _nothing)
            graph.add_node(_joint(number), _nothing)
            for step in stage:
                graph.add_edge(_gate(number), step.name)
            graph.add_edge([step.name for step in stage], _joint(number))
    graph.add_edge(START, _first(pipeline, 0))
    for number in range(len(pipeline.stages)):
        last = (
            _joint(number) if len(pipeline.stages[number]) > 1 else pipeline.stages[number][0].name
        )
        branch = pipeline.branch_after(number)
        if branch is None:
            graph.add_edge(last, _first(pipeline, number + 1))
        else:
            targets = [_target(pipeline, name) for name in branch.targets]
            graph.add_conditional_edges(last, _choice(pipeline, branch), targets)
    return graph


def _node(step: Step) -> Callable[..., Awaitable[Any]]:
    # Any: the engine looks up what is annotated, and hits are known to type checkers alone.
    async def visit(state: Any, runtime: Runtime[Any]) -> Any:
        return await run_step(step, state, runtime.context)

    return visit


def _choice(pipeline: Pipeline, branch: Branch) -> Callable[[Any], str]:
    def choose(state: Any) -> str:
        return _target(pipeline, next_step(branch, state))

    return choose


async def _nothing(state: Any) -> dict[str, Any]:
    return {}


def _target(pipeline: Pipeline, name: str) -> str:
    return GRAPH_END if name == END else _first(pipeline, pipeline.stage_of(name))


def _first(pipeline: Pipeline, number: int) -> str:
    if number >= len(pipeline.stages):
        return GRAPH_END
    stage = pipeline.stages[number]
    return _gate(number) if len(stage) > 1 else stage[0].name


def _gate(number: int) -> str:
    return f"gate {number}"


def _joint(number: int) -> str:
    return f"joint {number}"


def _last(old: Any, new: Any) -> Any:
    return new

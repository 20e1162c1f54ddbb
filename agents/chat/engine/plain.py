"""Plain engine: runs a pipeline by a loop.

It runs the same steps as ``agents.chat.engine.langgraph`` and needs no graph engine.
"""

from __future__ import annotations

from agents.core.pipeline import Pipeline, PipelineRun, PipelineState, run_stage
from rag.core.errors import LimitError

# A loop of tools takes two stages a turn, and has 50 turns at most.
MAX_STAGES = 200


class PlainEngine:
    """Runs a pipeline stage by stage; made once, for any number of runs."""

    name = "plain"

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    async def run(self, state: PipelineState, run: PipelineRun) -> PipelineState:
        """Return the state at the end; raise what a step without a fallback raises."""
        stages, number = self.pipeline.stages, self.pipeline.next_stage(-1, state)
        for _ in range(MAX_STAGES):
            if number == len(stages):
                return state
            state = {**state, **await run_stage(stages[number], state, run)}
            number = self.pipeline.next_stage(number, state)
        raise stage_limit_error()


def stage_limit_error() -> LimitError:
    """Return the error of a pipeline whose branches lead in a circle."""
    return LimitError(
        "The pipeline ran more than {limit} stages.",
        hint="End the circle of its branches.",
        limit=MAX_STAGES,
    )

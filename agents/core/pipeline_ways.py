"""Where a pipeline goes on. In: a stage that ended, its state. Out: the next one that is on.

Stages are numbers from 0; -1 is the start, ``len(pipeline.stages)`` the end.
"""

from __future__ import annotations

from agents.core.pipeline import END, Pipeline, PipelineState, always
from agents.core.pipeline_step import next_step


def ways_from(pipeline: Pipeline, number: int) -> list[int]:
    """Return the stages that may follow a stage, in order."""
    branch = pipeline.branch_after(number) if number >= 0 else None
    targets = [_stage_of(pipeline, name) for name in branch.targets] if branch else [number + 1]
    found = set[int]()
    for target in targets:
        found.add(target)
        while target < len(pipeline.stages) and _may_be_off(pipeline, target):
            target += 1
            found.add(target)
    return sorted(found)


def is_decided(pipeline: Pipeline, number: int) -> bool:
    """Return whether it hangs on the state what follows a stage."""
    has_branch = number >= 0 and pipeline.branch_after(number) is not None
    return has_branch or len(ways_from(pipeline, number)) > 1


def way_on(pipeline: Pipeline, number: int, state: PipelineState) -> int:
    """Return the stage that follows a stage; those whose steps are all off are passed over.

    Raises UnknownNameError for a branch that chooses what is none of its targets.
    """
    branch = pipeline.branch_after(number) if number >= 0 else None
    target = _stage_of(pipeline, next_step(branch, state)) if branch else number + 1
    while target < len(pipeline.stages) and _may_be_off(pipeline, target):
        if any(step.is_on(state) for step in pipeline.stages[target]):
            break
        target += 1
    return target


def _stage_of(pipeline: Pipeline, name: str) -> int:
    return len(pipeline.stages) if name == END else pipeline.stage_of(name)


def _may_be_off(pipeline: Pipeline, number: int) -> bool:
    # Behind a branch's own stage the branch decides, so that one is never passed over.
    stage = pipeline.stages[number]
    return pipeline.branch_after(number) is None and all(step.is_on is not always for step in stage)

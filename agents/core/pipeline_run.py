"""Pipeline steps run with timeout and fallback; the choice of the next stage."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from agents.core.pipeline import END, Branch, Pipeline, PipelineRun, PipelineState, Step, always
from rag.core import metrics
from rag.core.errors import ProviderTimeoutError, RAGError, UnknownNameError

log = logging.getLogger(__name__)


async def run_step(step: Step, state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return what a step changes, or what its fallback says; tell how long it took.

    A step that is switched off changes nothing. Raises RAGError where no fallback is.
    """
    if not step.is_on(state):
        return {}
    started = time.perf_counter()
    outcome, told = "stopped", dict[str, Any]()
    try:
        with metrics.span(f"step {step.name}"):
            update = await _in_time(step, state, run)
        outcome = "ok"
        told = {"route": update["route"]} if "route" in update else {}
        return update
    except RAGError as error:
        outcome = "failed"
        if step.fallback is None:
            raise
        log.warning("the step %s goes on without: %s", step.name, error)
        update = step.fallback(state, error)
        await run.emit("notice", {"step": step.name, "error": error.as_dict()})
        return update
    finally:
        spent_ms = round((time.perf_counter() - started) * 1e3, 1)
        log.debug("step %s: %s in %s ms", step.name, outcome, spent_ms)
        metrics.observe("step", spent_ms / 1e3, step=step.name, outcome=outcome)
        facts = {"step": step.name, "outcome": outcome, "duration_ms": spent_ms}
        await run.emit("step", {**facts, **told})


def next_step(branch: Branch, state: PipelineState) -> str:
    """Return where a branch leads; raise UnknownNameError for what is none of its targets."""
    chosen = branch.choose(state)
    if chosen not in branch.targets:
        raise UnknownNameError("target of a branch", chosen, branch.targets)
    return chosen


async def _in_time(step: Step, state: PipelineState, run: PipelineRun) -> PipelineState:
    timeout_s: float = (
        getattr(run.config, step.timeout) if isinstance(step.timeout, str) else step.timeout
    )
    try:
        async with asyncio.timeout(timeout_s):
            return await step.run(state, run)
    except TimeoutError:
        raise ProviderTimeoutError(
            "The step “{name}” took longer than {timeout_s} s.",
            hint="Try again, or allow the agent more time.",
            name=step.name,
            timeout_s=f"{timeout_s:g}",
        ) from None


def possible_next(pipeline: Pipeline, number: int) -> list[int]:
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
    return has_branch or len(possible_next(pipeline, number)) > 1


def next_stage(pipeline: Pipeline, number: int, state: PipelineState) -> int:
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

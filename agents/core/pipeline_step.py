"""One step of a pipeline, in time and with its own rule for failures. Used by every engine."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from agents.core.pipeline import Branch, PipelineRun, PipelineState, Step
from rag.core import watch
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
        with watch.span(f"step {step.name}"):
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
        watch.took("step", spent_ms / 1e3, step=step.name, outcome=outcome)
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
            name=step.name, timeout_s=f"{timeout_s:g}",
        ) from None  # fmt: skip

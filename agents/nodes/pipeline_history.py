"""Step LoadHistory. In: a question. Out: the turns before it and a summary of what was earlier."""

from __future__ import annotations

from agents.core.pipeline import PipelineRun, PipelineState


async def load_history(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``history`` and ``summary``."""
    history, summary = await run.load_history()
    return {"history": history, "summary": summary}

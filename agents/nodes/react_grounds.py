"""Whether an answer rests on anything. In: a state, what the model wrote. Out: yes or no."""

from __future__ import annotations

from agents.core.pipeline import PipelineRun, PipelineState
from agents.nodes.pipeline_remembered import is_remembered
from agents.nodes.pipeline_write import Teller
from rag.services.checked_stream import HOLDS


def has_grounds(state: PipelineState, run: PipelineRun) -> bool:
    """Return whether there is anything to answer from: documents, memories, a tool's result."""
    is_known = bool(state.get("passages")) or is_remembered(state, run)
    return is_known or _has_worked_out(state) or not _looks_up(run)


def rests_on_something(teller: Teller, state: PipelineState, run: PipelineRun) -> bool:
    """Return whether an answer may stand.

    It does by a quote that holds, by what a tool worked out, by memories where the question is
    about who asks, or by documents of which the search is sure enough; an agent that looks nothing
    up, or cites nothing, answers as it likes.
    """
    if not _looks_up(run) or not run.config.enable_source_citation or _has_worked_out(state):
        return True
    if is_remembered(state, run):
        return True
    if any(citation.verdict in HOLDS for citation in teller.citations):
        return True
    is_sure = (state.get("confidence") or 0.0) >= run.config.min_confidence_score
    return is_sure and bool(state.get("passages"))


def _has_worked_out(state: PipelineState) -> bool:
    made = state.get("tool_calls") or []
    return any(not call["is_error"] and call["n_results"] is None for call in made)


def _looks_up(run: PipelineRun) -> bool:
    return run.tools.searches_stores or bool(run.config.sources)

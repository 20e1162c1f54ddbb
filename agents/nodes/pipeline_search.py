"""Step Search. In: a question. Out: hits, and how sure the search is of them."""

from __future__ import annotations

from agents.core.pipeline import PipelineRun, PipelineState
from rag.core.errors import RAGError

# So many candidates for each one that is kept are ranked again.
WIDER, MAX_CANDIDATES = 4, 20


async def search(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``search_results``, ``confidence``, ``complexity``; raise what the search raises."""
    top_k = state.get("top_k") or run.config.default_top_k
    if state.get("enable_rerank") and run.can_rank:
        top_k = max(top_k, min(MAX_CANDIDATES, WIDER * run.config.rerank_top_k))
    found = await run.search(state.get("rewritten_query") or state["query"], top_k)
    return {
        "search_results": list(found.hits), "confidence": found.confidence, "search_error": None,
        "complexity": str(found.metadata.get("complexity") or ""),
    }  # fmt: skip


def without_results(state: PipelineState, error: RAGError) -> PipelineState:
    """Return the state of a search that failed: nothing found, and why."""
    return {"search_results": [], "search_error": error.as_dict(), "confidence": 0.0}

"""Step Rerank. In: a question and hits. Out: the best of them, ranked again where that helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agents.core.pipeline import PipelineRun, PipelineState
from rag.core.errors import RAGError
from rag.core.hits import Hit

# So few are all read anyway.
ENOUGH = 3


async def rerank(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``reranked_results``: as found, or in the order of whoever ranks again.

    Only more than three hits are ranked, and only where somebody can: a chat model that writes, or
    an endpoint. Raises RAGError when that one fails.
    """
    hits = state.get("search_results") or []
    if not state.get("enable_rerank") or len(hits) <= ENOUGH or not run.can_rank:
        return {"reranked_results": _kept(hits, _n_kept(state, run))}
    query = state.get("rewritten_query") or state["query"]
    ranked = await run.rerank(query, hits)
    update: PipelineState = {"reranked_results": _kept(ranked.hits, run.config.rerank_top_k)}
    if ranked.confidence is not None:
        update["confidence"] = ranked.confidence
    return update


def as_found(state: PipelineState, error: RAGError) -> PipelineState:
    """Return the hits in the order of the search: nobody could rank them again."""
    return {"reranked_results": _kept(state.get("search_results") or [], state.get("top_k") or 5)}


def _n_kept(state: PipelineState, run: PipelineRun) -> int:
    return state.get("top_k") or run.config.default_top_k


def _kept(hits: Sequence[Hit], n: int) -> list[Hit]:
    return [replace(hit, rank=rank) for rank, hit in enumerate(hits[:n], start=1)]

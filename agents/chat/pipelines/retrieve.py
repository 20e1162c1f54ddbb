"""Steps Rewrite, Search and Rerank: a standalone query, its hits, and the best of them first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agents.core.pipeline import PipelineRun, PipelineState
from agents.core.query_rewriting import needs_rewrite, parse_rewritten, rewrite_messages
from agents.core.state import Turn
from rag.core.errors import ProviderError, RAGError
from rag.core.hits import Hit
from rag.core.ports import ChatRequest


async def rewrite_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``rewritten_query``, the question itself where it needs nothing.

    Raises ProviderError when the model fails or writes no question.
    """
    query, history = state["query"], state.get("history") or []
    if not needs_rewrite(query, history):
        return {"rewritten_query": query}
    if run.can_write:
        rewritten, method = await _by_model(query, history, run), "model"
    else:
        before = next(turn["content"] for turn in reversed(history) if turn["role"] == "user")
        rewritten, method = await run.join_question(query, before)
    await run.emit("rewrite", {"query": rewritten, "original": query, "method": method})
    return {"rewritten_query": rewritten}


async def _by_model(query: str, history: Sequence[Turn], run: PipelineRun) -> str:
    shown = history[-2 * run.config.history_turns :] if run.config.history_turns else history[-2:]
    request = ChatRequest(
        rewrite_messages(query, shown),
        question=query,
        temperature=0.0,
        max_tokens=512,
        timeout_s=run.config.rewrite_timeout_s,
    )
    text = parse_rewritten((await run.ask(request)).text)
    if not text:
        raise ProviderError(
            "The model {model} wrote no question that stands alone.", model=run.model_id
        )
    return text


# So many candidates for each one that is kept are ranked again.
CANDIDATES_PER_HIT, MAX_CANDIDATES = 4, 20


async def search_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``search_results``, ``confidence``, ``complexity``; raise what the search raises."""
    top_k = state.get("top_k") or run.config.default_top_k
    if state.get("enable_rerank") and run.can_rank:
        top_k = max(top_k, min(MAX_CANDIDATES, CANDIDATES_PER_HIT * run.config.rerank_top_k))
    found = await run.search(state.get("rewritten_query") or state["query"], top_k)
    return {
        "search_results": list(found.hits),
        "confidence": found.confidence,
        "search_error": None,
        "complexity": str(found.metadata.get("complexity") or ""),
    }


def search_failed(state: PipelineState, error: RAGError) -> PipelineState:
    """Return the state of a search that failed: nothing found, and why."""
    return {"search_results": [], "search_error": error.as_dict(), "confidence": 0.0}


# So few are all read anyway.
MIN_RERANKED = 3


async def rerank_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``reranked_results``: as found, or in the order of whoever ranks again.

    Only more than three hits are ranked, and only where somebody can: a chat model that writes, or
    an endpoint. Raises RAGError when that one fails.
    """
    hits = state.get("search_results") or []
    if not state.get("enable_rerank") or len(hits) <= MIN_RERANKED or not run.can_rank:
        return {"reranked_results": _kept(hits, _n_kept(state, run))}
    query = state.get("rewritten_query") or state["query"]
    ranked = await run.rerank(query, hits)
    update: PipelineState = {"reranked_results": _kept(ranked.hits, run.config.rerank_top_k)}
    if ranked.confidence is not None:
        update["confidence"] = ranked.confidence
    return update


def keep_search_order(state: PipelineState, error: RAGError) -> PipelineState:
    """Return the hits in the order of the search: nobody could rank them again."""
    return {"reranked_results": _kept(state.get("search_results") or [], state.get("top_k") or 5)}


def _n_kept(state: PipelineState, run: PipelineRun) -> int:
    return state.get("top_k") or run.config.default_top_k


def _kept(hits: Sequence[Hit], n: int) -> list[Hit]:
    return [replace(hit, rank=rank) for rank, hit in enumerate(hits[:n], start=1)]

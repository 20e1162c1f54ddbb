"""The search of an agent. In: a question, stores, its config. Out: hits above the thresholds."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from agents.core.agent_config import AgentConfig
from agents.core.pipeline import Found
from rag.core.access import Scope
from rag.services.judge_hits import judge_hits
from rag.services.retrieve import retrieve


def search_stores(
    *, query: str, scope: Scope, stores: Sequence[Any], config: AgentConfig, top_k: int
) -> Found:
    """Return what the agent is shown, and how sure the search is of it.

    The stores' own weights and fusion are used; mode, number and thresholds are the agent's.
    """
    settings = stores[0].retrieval_settings.but(
        mode=config.search_mode, top_k=top_k, rerank="none", vector_threshold=0.0,
        bm25_threshold=0.0,
    )  # fmt: skip
    found = retrieve(query=query, scope=scope, stores=stores, settings=settings)
    judged = judge_hits(
        query=query, hits=found.hits, models_of=_models_of(stores, found.result.routes.keys()),
        vector_threshold=config.vector_threshold, bm25_threshold=config.bm25_threshold,
    )  # fmt: skip
    metadata = {**found.metadata, "below_thresholds": judged.n_weak}
    return Found(judged.hits, judged.confidence, metadata)


def _models_of(stores: Sequence[Any], spaces: Set[int]) -> dict[int, str] | None:
    """Return the models by store; None where a store has been moved since it was read."""
    if not spaces <= {store.space_id for store in stores}:
        return None
    return {store.pk: store.space.model for store in stores}

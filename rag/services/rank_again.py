"""Ranking again as retrieval settings say. In: hits of the index. Out: hits, and by whom."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from rag.core.errors import ProviderError
from rag.core.hits import Hit
from rag.core.types import RetrievalSettings
from rag.services.rerank import rerank_hits

FAILED = "failed"
log = logging.getLogger(__name__)


def n_candidates(*, top_k: int, settings: RetrievalSettings) -> int:
    """Return how many hits are wanted of the index, so that ``top_k`` can be chosen of them."""
    return top_k if settings.rerank == "none" else max(top_k, settings.rerank_top_k)


def rank_again(
    *, query: str, hits: Sequence[Hit], settings: RetrievalSettings
) -> tuple[list[Hit], str]:
    """Return the hits, the first ``rerank_top_k`` of them ranked again, and by whom.

    Whoever fails or answers with no ranking leaves the order as it is: ``failed``. Raises
    ConfigurationError where there is nobody to rank.
    """
    if settings.rerank == "none":
        return list(hits), ""
    best, rest = hits[: settings.rerank_top_k], hits[settings.rerank_top_k :]
    try:
        ranked = rerank_hits(query=query, hits=best, method=settings.rerank)
    except ProviderError as error:
        log.warning("Hits stay as found, ranking again (%s) failed: %s", settings.rerank, error)
        return list(hits), FAILED
    return [*ranked, *rest], settings.rerank

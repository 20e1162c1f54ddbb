"""What was asked, kept for the query log. A lost line is no loss, so nobody waits for the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rag import models
from rag.core.access import Scope
from rag.core.types import Citation, SearchResult
from rag.providers.postgres.quick_row import add_quickly


def log_query(
    *,
    result: SearchResult,
    scope: Scope,
    answer: str = "",
    citations: Sequence[Citation] = (),
) -> int:
    """Keep one search or question and return its id."""
    return add_quickly(models.QueryLog(
        kind=models.QueryLog.Kind.ASK if answer else models.QueryLog.Kind.SEARCH,
        query=result.query, user_id=scope.user_id, store_ids=list(result.store_ids),
        settings_hash=result.settings_hash, mode=result.mode, top_k=result.top_k,
        chunk_ids=[hit.chunk_id for hit in result.hits if hit.chunk_id is not None],
        best_score=result.hits[0].score if result.hits else None, confidence=result.confidence,
        timings_ms={name: round(ms, 2) for name, ms in result.timings_ms.items()},
        answer=answer, citations=[asdict(citation) for citation in citations],
    ))  # fmt: skip

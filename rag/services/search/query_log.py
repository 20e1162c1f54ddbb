"""Query log: searches and answers with their settings, timings and citations.

A lost line is no loss, so nobody waits for the disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rag import models
from rag.core.access import Scope
from rag.core.types import Citation, SearchResult
from rag.providers.postgres.db.connections import insert_without_fsync


def purge_queries(*, user_id: int, queries: Sequence[str]) -> int:
    """Empty the log lines of somebody who asked exactly this; return how many there were.

    What they asked and were answered is gone; times, settings and numbers of hits stay.
    """
    asked = {text.strip() for text in queries if text.strip()}
    lines = models.QueryLog.objects.filter(user_id=user_id, query__in=asked)
    return lines.update(query="", answer="", citations=[])


# The words stand in the answer alone, and go with it.
_FACTS = ("number", "verdict", "file_id", "chunk_id")
# An answer with tools searches a few times.
MAX_SEARCHES = 50


def log_citations(*, scope: Scope, since: datetime, citations: Sequence[Mapping[str, Any]]) -> int:
    """Note each citation with the last search of ``scope``'s user that found its chunk.

    Searches before ``since`` are none of the answer's. Return how many citations found theirs.
    """
    left = [{name: one.get(name) for name in _FACTS} for one in citations if one.get("chunk_id")]
    cited = [one["chunk_id"] for one in left]
    user_id: Any = scope.user_id  # None finds those that nobody in particular asked
    searches = models.QueryLog.objects.filter(
        user_id=user_id,
        created_at__gte=since,
        kind=models.QueryLog.Kind.SEARCH,
        citations=[],
        chunk_ids__overlap=cited,
    ).order_by("-pk")
    for pk, chunk_ids in searches.values_list("pk", "chunk_ids")[:MAX_SEARCHES] if left else ():
        own = [one for one in left if one["chunk_id"] in chunk_ids]
        if own:
            models.QueryLog.objects.filter(pk=pk).update(citations=own)
            left = [one for one in left if one not in own]
    return len(cited) - len(left)


def log_query(
    *,
    result: SearchResult,
    scope: Scope,
    answer: str = "",
    citations: Sequence[Citation] = (),
) -> int:
    """Keep one search or question and return its id."""
    return insert_without_fsync(
        models.QueryLog(
            kind=models.QueryLog.Kind.ASK if answer else models.QueryLog.Kind.SEARCH,
            query=result.query,
            user_id=scope.user_id,
            store_ids=list(result.store_ids),
            settings_hash=result.settings_hash,
            mode=result.mode,
            top_k=result.top_k,
            chunk_ids=[pk for hit in result.hits for pk in hit.chunk_ids],
            best_score=result.hits[0].score if result.hits else None,
            confidence=result.confidence,
            timings_ms={name: round(ms, 2) for name, ms in result.timings_ms.items()},
            answer=answer,
            citations=[asdict(citation) for citation in citations],
        )
    )

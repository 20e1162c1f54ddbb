"""What was asked, kept for the query log. A lost line is no loss, so nobody waits for the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache

from django.db import connection, transaction

from rag import models
from rag.core.access import Scope
from rag.core.hits import Hit, Leg
from rag.core.types import Citation, SearchResult
from rag.services.judge_hits import judge_hits

# The best hits tell whether anything good was found; judging more would cost the search time.
N_JUDGED = 3


def log_query(
    *,
    result: SearchResult,
    scope: Scope,
    store_ids: Sequence[int],
    answer: str = "",
    citations: Sequence[Citation] = (),
) -> int:
    """Keep one search or question and return its id."""
    judged = tuple(
        (hit.text, hit.store_id, hit.vector.score, hit.lexical.score)
        for hit in result.hits[:N_JUDGED]
    )
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit = off")
        row = models.QueryLog.objects.create(
            kind=models.QueryLog.Kind.ASK if answer else models.QueryLog.Kind.SEARCH,
            query=result.query, user_id=scope.user_id, store_ids=list(store_ids),
            settings_hash=result.settings_hash, mode=result.mode, top_k=result.top_k,
            chunk_ids=[hit.chunk_id for hit in result.hits if hit.chunk_id is not None],
            best_score=result.hits[0].score if result.hits else None,
            confidence=_confidence(result.query, judged) if judged else None,
            timings_ms={name: round(ms, 2) for name, ms in result.timings_ms.items()},
            answer=answer, citations=[asdict(citation) for citation in citations],
        )  # fmt: skip
    return int(row.pk)


@lru_cache(maxsize=1024)
def _confidence(
    query: str, facts: tuple[tuple[str, int | None, float | None, float | None], ...]
) -> float:
    # What is asked again is found again, often from a cache that must stay faster than this.
    hits = [
        Hit(text=text, rank=1, store_id=store_id, vector=Leg(score=near), lexical=Leg(score=words))
        for text, store_id, near, words in facts
    ]
    return judge_hits(query=query, hits=hits).confidence

"""What an answer cited, noted with the searches that found it. In: citations. Out: log lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rag import models
from rag.core.access import Scope

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
        user_id=user_id, created_at__gte=since, kind=models.QueryLog.Kind.SEARCH,
        citations=[], chunk_ids__overlap=cited,
    ).order_by("-pk")  # fmt: skip
    for pk, chunk_ids in searches.values_list("pk", "chunk_ids")[:MAX_SEARCHES] if left else ():
        own = [one for one in left if one["chunk_id"] in chunk_ids]
        if own:
            models.QueryLog.objects.filter(pk=pk).update(citations=own)
            left = [one for one in left if one not in own]
    return len(cited) - len(left)

"""Words taken out of the query log. In: whose, and which. Out: the lines' figures alone."""

from __future__ import annotations

from collections.abc import Sequence

from rag import models


def forget_queries(*, user_id: int, queries: Sequence[str]) -> int:
    """Empty the log lines of somebody who asked exactly this; return how many there were.

    What they asked and were answered is gone; times, settings and numbers of hits stay.
    """
    asked = {text.strip() for text in queries if text.strip()}
    lines = models.QueryLog.objects.filter(user_id=user_id, query__in=asked)
    return lines.update(query="", answer="", citations=[])

"""What is kept for so long and no longer. In: the settings. Out: fewer rows."""

from __future__ import annotations

from rag.conf import conf
from rag.providers.postgres.traces import forget_queries

AT_ONCE = 5000


def forget_old_queries() -> int:
    """Delete queries older than RAG_QUERY_LOG_DAYS; 0 keeps them all. Return how many went.

    In portions of their own transactions, so that nobody waits long.
    """
    days = conf().query_log_days
    if not days:
        return 0
    n_gone = 0
    while n := forget_queries(days, AT_ONCE):
        n_gone += n
    return n_gone

"""What is kept for so long and no longer. In: the settings. Out: fewer rows."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from rag import models
from rag.conf import conf
from rag.providers.postgres.traces import forget_queries
from rag.services.budget_period import period_start

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


def forget_old_usage() -> int:
    """Delete rows of the ledger older than RAG_USAGE_DAYS; 0 keeps them all. Return how many went.

    Those of this month stay in any case: a new budget counts them.
    """
    days, now = conf().usage_days, timezone.now()
    if not days:
        return 0
    month = period_start(period=models.Budget.Period.MONTH, at=now)
    old = models.UsageRecord.objects.filter(created_at__lt=min(month, now - timedelta(days=days)))
    n_gone = 0
    while keys := list(old.order_by("pk").values_list("pk", flat=True)[:AT_ONCE]):
        n_gone += models.UsageRecord.objects.filter(pk__in=keys).delete()[0]
    return n_gone

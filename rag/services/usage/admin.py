"""Budgets made and changed. In: what a key may use up. Out: the row, with what was used already."""

from __future__ import annotations

from decimal import Decimal

from django.db import transaction
from django.db.models import F, Sum
from django.utils import timezone

from rag import models
from rag.core.errors import InvalidInputError
from rag.services.usage.budgets import period_start


def save_budget(*, budget: models.Budget) -> models.Budget:
    """Save a new or changed budget; what its key has used in this period counts from now on.

    Raises InvalidInputError for one that limits nothing, or money without a currency.
    """
    if budget.max_tokens is None and budget.max_cost is None:
        raise InvalidInputError("The budget limits nothing.", hint="Set tokens, money, or both.")
    budget.currency = budget.currency.strip().upper()
    if budget.max_cost is not None and not (
        len(budget.currency) == 3 and budget.currency.isascii() and budget.currency.isalpha()
    ):
        raise InvalidInputError(
            "“{value}” is no currency.",
            hint="Write three letters, as in USD.",
            value=budget.currency,
        )
    start = period_start(period=budget.period, at=timezone.now())
    with transaction.atomic():
        # Calls that end now wait until this is decided, or are seen below.
        models.ApiKey.objects.select_for_update().filter(pk=budget.key_id).first()
        used = models.UsageRecord.objects.filter(key_id=budget.key_id, created_at__gte=start)
        tokens = used.aggregate(i=Sum("input_tokens"), o=Sum("output_tokens"))
        cost = used.filter(currency=budget.currency).aggregate(n=Sum(F("cost")))["n"]
        budget.period_start = start
        budget.spent_tokens = (tokens["i"] or 0) + (tokens["o"] or 0)
        budget.spent_cost = cost or Decimal(0)
        budget.save()
    return budget

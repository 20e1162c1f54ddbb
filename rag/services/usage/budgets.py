"""Budgets of API keys, and the prices that they count in.

A budget is reserved before a model call and committed after it, by days or months.

Each call reserves what it may use at most until it ends. A call is refused while spent and reserved
together reach the limit, so calls side by side overdraw a budget by one call at most.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation

from django.db import transaction
from django.db.models import F, Sum
from django.utils import timezone
from django.utils.translation import gettext_noop

from rag import models
from rag.conf import conf
from rag.core.errors import ConfigurationError, ForbiddenError, InvalidInputError, LimitError
from rag.core.plugins import PLUGINS
from rag.core.request_context import UsageAccount
from rag.providers.postgres.db.connections import release_db

log = logging.getLogger(__name__)
_DAY = models.Budget.Period.DAY
MILLION = Decimal(1_000_000)


def period_start(*, period: str, at: datetime) -> datetime:
    """Return when the day or month of ``at`` began in the installation's time zone."""
    day = timezone.localtime(at).replace(hour=0, minute=0, second=0, microsecond=0)
    return day if period == _DAY else day.replace(day=1)


def period_end(*, period: str, at: datetime) -> datetime:
    """Return when the next day or month begins."""
    start = period_start(period=period, at=at)
    # Noon of a day that is surely in the next period: changes of the clock do not matter.
    later = start + (timedelta(days=1, hours=12) if period == _DAY else timedelta(days=32))
    return period_start(period=period, at=later)


def budget_exceeded(
    *, budget: models.Budget, limit: str, is_money: bool, at: datetime
) -> LimitError:
    """Return the error of a budget that is used up; ``limit`` is an amount as people read it."""
    end = period_end(period=budget.period, at=at)
    wait_s = max(1, math.ceil((end - at).total_seconds()))
    told = {"limit": limit, "resets_at": end.isoformat(timespec="minutes")}
    if budget.period == _DAY:
        message = gettext_noop("This key's budget of {limit} tokens a day is used up.")
        if is_money:
            message = gettext_noop("This key's budget of {limit} a day is used up.")
    else:
        message = gettext_noop("This key's budget of {limit} tokens a month is used up.")
        if is_money:
            message = gettext_noop("This key's budget of {limit} a month is used up.")
    return LimitError(message, hint="It begins anew at {resets_at}.", retry_after_s=wait_s, **told)


MARGIN_S = 60.0


def is_unbilled(model: str) -> bool:
    """Return whether a chat model only quotes: nobody bills it, and it counts no tokens."""
    provider = model.partition(":")[0]
    return provider in PLUGINS.names("chat") and getattr(
        PLUGINS.get("chat", provider), "only_quotes", False
    )


def reserve(
    *, account: UsageAccount, model: str, input_tokens: int, output_tokens: int, timeout_s: float
) -> models.BudgetHold | None:
    """Return what holds so many tokens for a call; None where the key has no budget.

    This thread's connections go back to the pool, whatever comes of it. Raises LimitError, which
    says when the budget begins anew, when it is used up; ForbiddenError where a budget in money
    meets a model without a price.
    """
    key_id = account.key_id
    try:
        if key_id is None or is_unbilled(model):
            return None
        if not models.Budget.objects.filter(key_id=key_id).exists():
            return None
        price, now = price_of(model=model), timezone.now()
        with transaction.atomic():
            rows = models.Budget.objects.select_for_update().filter(key_id=key_id)
            budgets = list(rows.order_by("pk"))
            models.BudgetHold.objects.filter(key_id=key_id, expires_at__lt=now).delete()
            for budget in budgets:
                _check(budget, model, price, now)
            return models.BudgetHold.objects.create(
                key_id=key_id,
                tokens=input_tokens + output_tokens,
                cost=price.cost(input_tokens, output_tokens) if price else None,
                currency=price.currency if price else "",
                expires_at=now + timedelta(seconds=timeout_s + MARGIN_S),
            )
    finally:
        # A service is called next, or a refusal is the last that this thread does.
        release_db()


def check_budget(*, key_id: int | None) -> bool:
    """Return whether a key has a budget at all.

    Raises LimitError now where its next call would be refused for tokens or money used up.
    """
    if key_id is None:
        return False
    budgets = list(models.Budget.objects.filter(key_id=key_id).order_by("pk"))
    for budget in budgets:
        _check_spent(budget, timezone.now())
    return bool(budgets)


def commit(*, record: models.UsageRecord, hold: models.BudgetHold | None) -> None:
    """Count a call on the budgets of its key and give back what it held. In a transaction."""
    for budget in (
        models.Budget.objects.select_for_update().filter(key_id=record.key_id).order_by("pk")
    ):
        _begin_anew(budget, timezone.now())
        budget.spent_tokens += (record.input_tokens or 0) + (record.output_tokens or 0)
        if record.cost is not None and record.currency == budget.currency:
            budget.spent_cost += record.cost
        budget.save(update_fields=["period_start", "spent_tokens", "spent_cost"])
    if hold is not None:
        hold.delete()


def _check(budget: models.Budget, model: str, price: Price | None, now: datetime) -> None:
    if budget.max_cost is not None and (price is None or price.currency != budget.currency):
        raise ForbiddenError(
            "This key has a budget in {currency}, and what {model} costs in it is not known.",
            hint="Name its price in RAG_PRICES, or choose another model.",
            currency=budget.currency,
            model=model,
        )
    _check_spent(budget, now)


def _check_spent(budget: models.Budget, now: datetime) -> None:
    _begin_anew(budget, now)
    held = models.BudgetHold.objects.filter(key_id=budget.key_id, expires_at__gte=now)
    if budget.max_tokens is not None:
        tokens = held.aggregate(n=Sum("tokens"))["n"] or 0
        if budget.spent_tokens + tokens >= budget.max_tokens:
            raise budget_exceeded(
                budget=budget, limit=f"{budget.max_tokens}", is_money=False, at=now
            )
    if budget.max_cost is not None:
        cost = held.filter(currency=budget.currency).aggregate(n=Sum("cost"))["n"] or Decimal(0)
        if budget.spent_cost + cost >= budget.max_cost:
            limit = f"{budget.max_cost.normalize():f} {budget.currency}"
            raise budget_exceeded(budget=budget, limit=limit, is_money=True, at=now)


def _begin_anew(budget: models.Budget, now: datetime) -> None:
    start = period_start(period=budget.period, at=now)
    if budget.period_start != start:
        budget.period_start, budget.spent_tokens, budget.spent_cost = start, 0, Decimal(0)


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


@dataclass(frozen=True, slots=True)
class Price:
    """Money for a million tokens of a model, from RAG_PRICES."""

    input: Decimal
    output: Decimal
    currency: str

    def cost(self, input_tokens: int | None, output_tokens: int | None) -> Decimal | None:
        """Return what so many tokens cost; None where one of the counts is missing."""
        if input_tokens is None or output_tokens is None:
            return None
        whole = (self.input * input_tokens + self.output * output_tokens) / MILLION
        return whole.quantize(Decimal("1e-9"))


def price_of(*, model: str) -> Price | None:
    """Return the price of ``provider:model``, None where RAG_PRICES names none.

    A name that ends in ``*`` stands for all that begin so; the longest one counts. A price that
    cannot be read is none, which the log and ``rag_doctor`` say.
    """
    prices = conf().prices
    name = model if model in prices else _pattern(model)
    if not name:
        return None
    try:
        return read_price(name=name)
    except ConfigurationError as error:
        log.error("%s", error)
        return None


def read_price(*, name: str) -> Price:
    """Return a price of the setting; raise ConfigurationError for one that is none."""
    entry = conf().prices[name]
    try:
        price = Price(
            Decimal(str(entry["input"])),
            Decimal(str(entry.get("output", 0))),
            str(entry.get("currency", "USD")).upper(),
        )
    except (KeyError, TypeError, AttributeError, InvalidOperation):
        price = None
    if price is None or not _is_sound(price):
        raise ConfigurationError(
            "RAG_PRICES names no price for {model}.",
            hint="Write {example}.",
            model=name,
            example='{"input": 0.3, "output": 2.5, "currency": "USD"}',
        )
    return price


def _is_sound(price: Price) -> bool:
    amounts = (price.input, price.output)
    are_amounts = all(one.is_finite() and 0 <= one < 10**6 for one in amounts)
    return are_amounts and len(price.currency) == 3 and price.currency.isalpha()


def _pattern(model: str) -> str:
    fitting = [name for name in conf().prices if name.endswith("*") and model.startswith(name[:-1])]
    return max(fitting, key=len, default="")

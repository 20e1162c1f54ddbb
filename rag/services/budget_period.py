"""When budgets begin anew. In: a day or month. Out: its ends, and how a refusal tells them."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.translation import gettext_noop

from rag import models
from rag.core.errors import LimitError

_DAY = models.Budget.Period.DAY


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


def refusal(*, budget: models.Budget, limit: str, is_money: bool, at: datetime) -> LimitError:
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

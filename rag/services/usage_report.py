"""What models were used for and what that cost. In: who asks, a time, how to group. Out: sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import TruncDate, TruncMonth

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, UnknownNameError

MAX_ROWS = 5000
# What can be grouped by, and where it is found.
GROUPS: Mapping[str, Any] = {
    "day": TruncDate("created_at"), "month": TruncMonth("created_at"), "provider": F("provider"),
    "model": F("model"), "kind": F("kind"), "agent": F("agent"), "user": F("user__username"),
    "key": F("key__name"), "store": F("store__slug"),
}  # fmt: skip
FILTERS = {
    "provider": "provider", "model": "model", "kind": "kind", "agent": "agent", "run": "run",
    "user": "user__username", "key": "key_id", "store": "store__slug",
}  # fmt: skip
_SUMS = {
    "n_calls": Count("id"), "n_input": Sum("input_tokens"), "n_output": Sum("output_tokens"),
    "n_unpriced": Count("id", filter=Q(cost__isnull=True)),
    "n_estimated": Count("id", filter=Q(is_estimated=True)),
}  # fmt: skip
_TOLD = {
    "n_calls": "calls", "n_input": "input_tokens", "n_output": "output_tokens",
    "n_unpriced": "unpriced_calls", "n_estimated": "estimated_calls",
}  # fmt: skip
_CALL = (
    "kind", "provider", "model", "input_tokens", "output_tokens", "is_estimated", "cost",
    "currency", "outcome", "duration_ms", "prompt_sha256", "agent", "run", "created_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class UsageQuestion:
    """Which calls, from ``since`` until before ``until``, and the names in GROUPS to sum by."""

    since: datetime
    until: datetime
    by: Sequence[str] = ("day", "model")
    only: Mapping[str, Any] = field(default_factory=dict)


def usage_report(*, question: UsageQuestion, scope: Scope) -> dict[str, Any]:
    """Return sums of what ``scope`` may see, JSON-safe; money by currency, unknown prices apart.

    Raises UnknownNameError for another group or filter, InvalidInputError for too many rows.
    """
    for name in question.by:
        if name not in GROUPS:
            raise UnknownNameError("group of usage", name, GROUPS)
    rows = _records(question, scope)
    named = {f"by_{name}": GROUPS[name] for name in dict.fromkeys(question.by)}
    found = rows.order_by().values(**named).annotate(**_SUMS).order_by(*named)[: MAX_ROWS + 1]
    groups = list(found)
    if len(groups) > MAX_ROWS:
        raise InvalidInputError(
            "The report would have more than {limit} rows.",
            hint="Ask for a shorter time or fewer groups.", limit=MAX_ROWS,
        )  # fmt: skip
    costs = _costs(rows, named)
    return {
        "since": question.since.isoformat(), "until": question.until.isoformat(),
        "by": list(dict.fromkeys(question.by)),
        "rows": [_told(row, costs, tuple(named)) for row in groups],
        "total": _told(rows.aggregate(**_SUMS), _costs(rows, {}), ()),
    }  # fmt: skip


def calls_of_run(*, run: str, scope: Scope) -> list[dict[str, Any]]:
    """Return each call that was made for an answer or a flow's run, in order."""
    found = models.UsageRecord.objects.readable(scope).filter(run=run).order_by("pk")
    return [{**row, "cost": _money(row["cost"])} for row in found.values(*_CALL)]


def _records(question: UsageQuestion, scope: Scope) -> QuerySet[models.UsageRecord]:
    rows = models.UsageRecord.objects.readable(scope).filter(
        created_at__gte=question.since, created_at__lt=question.until
    )
    for name, value in question.only.items():
        if name not in FILTERS:
            raise UnknownNameError("filter of usage", name, FILTERS)
        rows = rows.filter(**{FILTERS[name]: value})
    return rows


def _costs(
    rows: QuerySet[models.UsageRecord], named: Mapping[str, Any]
) -> dict[tuple[Any, ...], dict[str, float]]:
    priced = rows.filter(cost__isnull=False).order_by()
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    sums: Any = priced.values("currency", **named).annotate(money=Sum("cost"))
    for row in sums:
        key = tuple(row[name] for name in named)
        found.setdefault(key, {})[row["currency"]] = float(row["money"])
    return found


def _told(
    row: Mapping[str, Any], costs: Mapping[tuple[Any, ...], dict[str, float]], names: Sequence[str]
) -> dict[str, Any]:
    group = {name.removeprefix("by_"): row[name] for name in names}
    sums = {told: row[name] or 0 for name, told in _TOLD.items()}
    return {**group, **sums, "cost": costs.get(tuple(row[name] for name in names), {})}


def _money(cost: Any) -> float | None:
    return None if cost is None else float(cost)

"""Usage reports: calls, tokens and cost, grouped and filtered, within a Scope."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import TruncDate, TruncMonth

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, UnknownNameError

MAX_ROWS = 5000
_USER = f"user__{get_user_model().USERNAME_FIELD}"
# What can be grouped by, and where it is found.
GROUPS: Mapping[str, Any] = {
    "day": TruncDate("created_at"),
    "month": TruncMonth("created_at"),
    "provider": F("provider"),
    "model": F("model"),
    "kind": F("kind"),
    "agent": F("agent"),
    "user": F(_USER),
    "key": F("key__name"),
    "store": F("store__slug"),
}
FILTERS = {
    "provider": "provider",
    "model": "model",
    "kind": "kind",
    "agent": "agent",
    "run": "run",
    "user": _USER,
    "key": "key_id",
    "store": "store__slug",
}
_SUMS = {
    "n_calls": Count("id"),
    "n_input": Sum("input_tokens"),
    "n_output": Sum("output_tokens"),
    "n_unpriced": Count("id", filter=Q(cost__isnull=True)),
    "n_estimated": Count("id", filter=Q(is_estimated=True)),
    "money": Sum("cost"),
}
_TOLD = {
    "n_calls": "calls",
    "n_input": "input_tokens",
    "n_output": "output_tokens",
    "n_unpriced": "unpriced_calls",
    "n_estimated": "estimated_calls",
}
_CALL = (
    "kind",
    "provider",
    "model",
    "input_tokens",
    "output_tokens",
    "is_estimated",
    "cost",
    "currency",
    "outcome",
    "duration_ms",
    "prompt_sha256",
    "agent",
    "run",
    "created_at",
)


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """Which calls, from ``since`` until before ``until``, and the names in GROUPS to sum by."""

    since: datetime
    until: datetime
    by: Sequence[str] = ("day", "model")
    only: Mapping[str, Any] = field(default_factory=dict)


def usage_report(*, question: UsageQuery, scope: Scope) -> dict[str, Any]:
    """Return sums of what ``scope`` may see, JSON-safe; money by currency, unknown prices apart.

    Raises UnknownNameError for another group or filter, InvalidInputError for too many rows.
    """
    for name in question.by:
        if name not in GROUPS:
            raise UnknownNameError("group of usage", name, GROUPS)
    names = tuple(dict.fromkeys(question.by))
    groups = _groups(question, scope, names)
    return {
        "since": question.since.isoformat(),
        "until": question.until.isoformat(),
        "by": [*names],
        "rows": [
            {**dict(zip(names, key, strict=True)), **_added(parts)} for key, parts in groups.items()
        ],
        "total": _added(chain.from_iterable(groups.values())),
    }


def run_calls(*, run: str, scope: Scope) -> list[dict[str, Any]]:
    """Return each call that was made for an answer or a flow's run, in order."""
    found = models.UsageRecord.objects.readable(scope).filter(run=run).order_by("pk")
    return [
        {**row, "cost": None if row["cost"] is None else float(row["cost"])}
        for row in found.values(*_CALL)
    ]


def _records(question: UsageQuery, scope: Scope) -> QuerySet[models.UsageRecord]:
    rows = models.UsageRecord.objects.readable(scope).filter(
        created_at__gte=question.since, created_at__lt=question.until
    )
    for name, value in question.only.items():
        if name not in FILTERS:
            raise UnknownNameError("filter of usage", name, FILTERS)
        rows = rows.filter(**{FILTERS[name]: value})
    return rows


def _groups(
    question: UsageQuery, scope: Scope, names: Sequence[str]
) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    """Return the sums of each group, one a currency: the records are many, and read once."""
    columns = {f"by_{name}": GROUPS[name] for name in names}
    records = _records(question, scope).order_by().values("currency", **columns)
    found: Any = records.annotate(**_SUMS).order_by(*columns)
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in found.iterator():
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
        if len(groups) > MAX_ROWS:
            raise InvalidInputError(
                "The report would have more than {limit} rows.",
                hint="Ask for a shorter time or fewer groups.",
                limit=MAX_ROWS,
            )
    return groups


def _added(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    sums: Counter[str] = Counter(dict.fromkeys(_TOLD.values(), 0))
    costs: Counter[str] = Counter()
    for row in parts:
        sums.update({told: row[name] or 0 for name, told in _TOLD.items()})
        if row["money"] is not None:
            costs[row["currency"]] += row["money"]
    return {**sums, "cost": {currency: float(money) for currency, money in costs.items()}}

"""How the stores are used and how well. In: a Scope. Out: figures of the last days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from django.db.models import Aggregate, Count, FloatField, Q
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, TruncDate
from django.utils import timezone

from rag import models
from rag.core.access import Scope
from rag.services.cited_files import cited_files
from rag.services.visible_rows import visible_queries

DAYS = 14
# The newest rows say enough; an installation with more a fortnight waits no longer for them.
MAX_ROWS = 100_000
# Below, the best hit is doubtful (see judge_hits).
GOOD = 0.5
N_FILES = 8


@dataclass(frozen=True, slots=True)
class Day:
    """One day's queries, their latencies in ms and the share without a good hit (None: unknown)."""

    day: date
    n_queries: int
    p50_ms: float | None
    p95_ms: float | None
    bad_share: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    """The days, each once, and the whole of them; shares are 0 to 1, None without any query.

    ``cited`` are the files with the most verified citations as (id, name, n); ``never_cited`` some
    searchable ones without any as (id, name), ``n_never_cited`` counts them.
    """

    days: tuple[Day, ...]
    whole: Day
    cache_share: float | None
    cited: tuple[tuple[int, str, int], ...]
    never_cited: tuple[tuple[int, str], ...]
    n_never_cited: int


def dashboard(*, scope: Scope) -> Figures:
    """Return the figures of the queries that ``scope`` may look at, over 14 days."""
    today = timezone.localdate()
    first = today - timedelta(days=DAYS - 1)
    rows = visible_queries(scope=scope).filter(
        created_at__gte=timezone.now() - timedelta(days=DAYS)
    )
    newest = rows.order_by("-pk").values_list("pk", flat=True)
    if (oldest := newest[MAX_ROWS : MAX_ROWS + 1].first()) is not None:
        rows = rows.filter(pk__gt=oldest)
    rows = rows.order_by()
    by_day: dict[date, Day] = {
        row["on"]: _day(row["on"], dict(row))
        for row in rows.annotate(on=TruncDate("created_at")).values("on").annotate(**_MEASURES)
    }
    days = [first + timedelta(days=n) for n in range(DAYS)]
    totals = rows.aggregate(
        **_MEASURES,
        n_asked=Count("pk", filter=Q(timings_ms__has_key="cache")),
        n_kept=Count("pk", filter=Q(timings_ms__has_key="cache") & ~Q(timings_ms__has_key="sql")),
    )
    cited = cited_files(rows=rows)
    files = models.File.objects.readable(scope).filter(n_chunks__gt=0)
    names = dict(files.filter(pk__in=[pk for pk, _ in cited[:100]]).values_list("pk", "name"))
    cited_ids = [pk for pk, _ in cited]
    return Figures(
        days=tuple(by_day.get(day) or Day(day, 0, None, None, None) for day in days),
        whole=_day(today, totals),
        cache_share=_share(totals["n_kept"], totals["n_asked"]),
        cited=tuple([(pk, names[pk], n) for pk, n in cited if pk in names][:N_FILES]),
        never_cited=tuple(
            files.exclude(pk__in=cited_ids).order_by("pk").values_list("pk", "name")[:N_FILES]
        ),
        # Not counted by what is missing from a long list, which reads it for every file.
        n_never_cited=files.count() - files.filter(pk__in=cited_ids).count(),
    )


class _Percentile(Aggregate):
    function = "percentile_cont"
    template = "%(function)s(%(share)s) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()


_TOTAL = Cast(KT("timings_ms__total"), FloatField())
_MEASURES = {
    "n": Count("pk"),
    "p50": _Percentile(_TOTAL, share=0.5),
    "p95": _Percentile(_TOTAL, share=0.95),
    "n_judged": Count("pk", filter=Q(confidence__isnull=False) | Q(chunk_ids=[])),
    "n_bad": Count("pk", filter=Q(confidence__lt=GOOD) | Q(chunk_ids=[])),
}


def _day(day: date, row: Mapping[str, Any]) -> Day:
    bad = _share(row["n_bad"], row["n_judged"])
    return Day(day, int(row["n"]), row["p50"], row["p95"], bad)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None

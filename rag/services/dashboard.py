"""How the stores are used and how well. In: a Scope. Out: figures of the last days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from django.db.models import Q
from django.db.models.expressions import RawSQL
from django.utils import timezone

from rag import models
from rag.core.access import Scope
from rag.services.cited_files import cited_files
from rag.services.query_figures import QueryFigures, query_figures
from rag.services.visible_files import visible_files
from rag.services.visible_rows import visible_queries

DAYS = 14
# The newest rows say enough; an installation with more a fortnight waits no longer for them.
MAX_ROWS = 100_000
N_FILES = 8
_NONE = QueryFigures(0, None, None, 0, 0, 0, 0)


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
    since = timezone.now() - timedelta(days=DAYS)
    asked = visible_queries(scope=scope).filter(created_at__gte=since)
    rows = asked.order_by("-pk")[:MAX_ROWS]
    by_day = query_figures(rows=rows)
    whole = by_day[None]
    cited = cited_files(rows=rows)
    files = visible_files(scope=scope, rows=models.File.objects.filter(n_chunks__gt=0))
    names = dict(files.filter(pk__in=[pk for pk, _ in cited[:100]]).values_list("pk", "name"))
    # One array: thousands of parameters take longer to send than to look up.
    is_cited = Q(pk__in=RawSQL("SELECT unnest(%s::bigint[])", [[pk for pk, _ in cited]]))
    days = [first + timedelta(days=n) for n in range(DAYS)]
    return Figures(
        days=tuple(_day(day, by_day.get(day, _NONE)) for day in days),
        whole=_day(today, whole),
        cache_share=_share(whole.n_kept, whole.n_asked),
        cited=tuple([(pk, names[pk], n) for pk, n in cited if pk in names][:N_FILES]),
        never_cited=tuple(
            files.exclude(is_cited).order_by("pk").values_list("pk", "name")[:N_FILES]
        ),
        # Not counted by what is missing from a long list, which reads it for every file.
        n_never_cited=files.count() - files.filter(is_cited).count(),
    )


def _day(day: date, sums: QueryFigures) -> Day:
    return Day(day, sums.n, sums.p50_ms, sums.p95_ms, _share(sums.n_bad, sums.n_judged))


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None

"""Dashboard: query volume, latency, quality, cache hits and cited files of the last 14 days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL
from django.utils import timezone

from rag import models
from rag.core.access import Scope
from rag.providers.postgres.db.connections import fetch_rows
from rag.services.files import visible_files
from rag.services.operations.visibility import visible_queries

_CITED = """SELECT (c->>'file_id')::bigint AS file_id, count(*) AS n
FROM ({rows}) q, jsonb_array_elements(q.citations) c
WHERE q.citations <> '[]' AND c->>'file_id' IS NOT NULL AND c->>'verdict' = 'verified'
GROUP BY 1 ORDER BY 2 DESC, 1"""
# Below, the best hit is doubtful (see judge_hits).
GOOD = 0.5
_FIGURES = """
SELECT day, count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY ms),
  percentile_cont(0.95) WITHIN GROUP (ORDER BY ms),
  count(*) FILTER (WHERE confidence IS NOT NULL OR is_empty),
  count(*) FILTER (WHERE confidence < %s OR is_empty),
  count(*) FILTER (WHERE timings_ms ? 'cache'),
  count(*) FILTER (WHERE timings_ms ? 'cache' AND NOT timings_ms ? 'sql')
FROM (SELECT *, (created_at AT TIME ZONE %s)::date AS day, (timings_ms->>'total')::float8 AS ms,
  chunk_ids = '{{}}' AS is_empty FROM ({rows}) r) q
GROUP BY GROUPING SETS ((day), ())
"""
DAYS = 14
# The newest rows say enough; an installation with more a fortnight waits no longer for them.
MAX_ROWS = 100_000
N_FILES = 8


def most_cited_files(*, rows: QuerySet[models.QueryLog]) -> list[tuple[int, int]]:
    """Return (file id, number of verified citations), the most cited first; files may be gone."""
    sql, params = rows.values("citations").query.sql_with_params()
    return [(int(pk), int(n)) for pk, n in fetch_rows(_CITED.format(rows=sql), params)]


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """Sums of some queries: their number, latencies in ms (None: unknown), how many of those that
    were judged had no good hit, and how many of those that asked the cache were answered by it."""

    n: int
    p50_ms: float | None
    p95_ms: float | None
    n_judged: int
    n_bad: int
    n_asked: int
    n_kept: int


def query_figures(*, rows: QuerySet[models.QueryLog]) -> dict[date | None, QueryFigures]:
    """Return the figures of each day with queries, and under None those of all.

    The rows are read once: there may be very many.
    """
    read = rows.values("created_at", "timings_ms", "confidence", "chunk_ids")
    sql, params = read.query.sql_with_params()
    zone = timezone.get_current_timezone_name()
    return {
        day: QueryFigures(*figures)
        for day, *figures in fetch_rows(_FIGURES.format(rows=sql), [GOOD, zone, *params])
    }


_NONE = QueryFigures(0, None, None, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class DayFigures:
    """One day's queries, their latencies in ms and the share without a good hit (None: unknown)."""

    day: date
    n_queries: int
    p50_ms: float | None
    p95_ms: float | None
    bad_share: float | None


@dataclass(frozen=True, slots=True)
class DashboardFigures:
    """The days, each once, and the whole of them; shares are 0 to 1, None without any query.

    ``cited`` are the files with the most verified citations as (id, name, n); ``never_cited`` some
    searchable ones without any as (id, name), ``n_never_cited`` counts them.
    """

    days: tuple[DayFigures, ...]
    whole: DayFigures
    cache_share: float | None
    cited: tuple[tuple[int, str, int], ...]
    never_cited: tuple[tuple[int, str], ...]
    n_never_cited: int


def dashboard(*, scope: Scope) -> DashboardFigures:
    """Return the figures of the queries that ``scope`` may look at, over 14 days."""
    today = timezone.localdate()
    first = today - timedelta(days=DAYS - 1)
    since = timezone.now() - timedelta(days=DAYS)
    queries = visible_queries(scope=scope).filter(created_at__gte=since)
    rows = queries.order_by("-pk")[:MAX_ROWS]
    by_day = query_figures(rows=rows)
    whole = by_day[None]
    cited = most_cited_files(rows=rows)
    files = visible_files(scope=scope, rows=models.File.objects.filter(n_chunks__gt=0))
    names = dict(files.filter(pk__in=[pk for pk, _ in cited[:100]]).values_list("pk", "name"))
    # One array: thousands of parameters take longer to send than to look up.
    is_cited = Q(pk__in=RawSQL("SELECT unnest(%s::bigint[])", [[pk for pk, _ in cited]]))
    days = [first + timedelta(days=n) for n in range(DAYS)]
    return DashboardFigures(
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


def _day(day: date, sums: QueryFigures) -> DayFigures:
    return DayFigures(day, sums.n, sums.p50_ms, sums.p95_ms, _share(sums.n_bad, sums.n_judged))


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None

"""Dashboard: query volume, latency, quality, cache hits and cited files of the last 14 days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL
from django.utils import timezone

from rag import models
from rag.core.access import Scope
from rag.providers.postgres.db.connections import fetch_rows
from rag.services.files import visible_files

_CITED = """SELECT (c->>'file_id')::bigint AS file_id, count(*) AS n
FROM ({rows}) q, jsonb_array_elements(q.citations) c
WHERE q.citations <> '[]' AND c->>'file_id' IS NOT NULL
  AND c->>'verdict' IN ('verified', 'abridged')
GROUP BY 1 ORDER BY 2 DESC, 1"""
# Below, the best hit is doubtful (see rag.services.search.confidence).
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


def visible_queries(
    *, scope: Scope, rows: QuerySet[models.QueryLog] | None = None
) -> QuerySet[models.QueryLog]:
    """Return logged queries, of ``rows`` or all, whose stores are all readable, and editable
    unless oneself had asked.

    Operators see all, also those of stores that are gone.
    """
    rows = models.QueryLog.objects.all() if rows is None else rows
    if scope.is_operator and scope.only_store_ids is None:
        return rows
    stores = models.Store.objects
    editable = list(stores.editable(scope).values_list("pk", flat=True))
    readable = list(stores.readable(scope).values_list("pk", flat=True))
    own = Q(user_id=scope.user_id, store_ids__contained_by=readable)
    return rows.exclude(store_ids=[]).filter(own | Q(store_ids__contained_by=editable))


def most_cited_files(*, rows: QuerySet[models.QueryLog]) -> list[tuple[int, int]]:
    """Return (file id, number of verified citations), the most cited first; files may be gone."""
    sql, params = rows.values("citations").query.sql_with_params()
    return [(int(pk), int(n)) for pk, n in fetch_rows(_CITED.format(rows=sql), params)]


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """Sums of the queries of a day, or of all: their number, latencies in ms (None: unknown), how
    many of those that were judged had no good hit, and how many of those that asked the cache were
    answered by it."""

    n_queries: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None
    n_judged: int = 0
    n_bad: int = 0
    n_asked: int = 0
    n_kept: int = 0

    @property
    def bad_share(self) -> float | None:
        """Return the share without a good hit, 0 to 1; None where none was judged."""
        return self.n_bad / self.n_judged if self.n_judged else None

    @property
    def cache_share(self) -> float | None:
        """Return the share that the cache answered, 0 to 1; None where none asked it."""
        return self.n_kept / self.n_asked if self.n_asked else None


def query_figures(*, rows: QuerySet[models.QueryLog]) -> dict[date | None, QueryFigures]:
    """Return the figures of each day with queries, and under None those of all.

    The rows are read once: there may be very many.
    """
    read = rows.values("created_at", "timings_ms", "confidence", "chunk_ids")
    sql, params = read.query.sql_with_params()
    zone = timezone.get_current_timezone_name()
    found = fetch_rows(_FIGURES.format(rows=sql), [GOOD, zone, *params])
    return {day: QueryFigures(*figures) for day, *figures in found}


@dataclass(frozen=True, slots=True)
class DashboardFigures:
    """The figures of each day, and of all of them together.

    ``cited`` are the files with the most verified citations as (id, name, n); ``never_cited`` some
    searchable ones without any as (id, name), ``n_never_cited`` counts them.
    """

    days: Mapping[date, QueryFigures]
    whole: QueryFigures
    cited: tuple[tuple[int, str, int], ...]
    never_cited: tuple[tuple[int, str], ...]
    n_never_cited: int


def dashboard(*, scope: Scope) -> DashboardFigures:
    """Return the figures of the queries that ``scope`` may look at, over 14 days."""
    first = timezone.localdate() - timedelta(days=DAYS - 1)
    since = timezone.now() - timedelta(days=DAYS)
    queries = visible_queries(scope=scope).filter(created_at__gte=since)
    rows = queries.order_by("-pk")[:MAX_ROWS]
    by_day = query_figures(rows=rows)
    cited = most_cited_files(rows=rows)
    files = visible_files(scope=scope, rows=models.File.objects.filter(n_chunks__gt=0))
    names = dict(files.filter(pk__in=[pk for pk, _ in cited[:100]]).values_list("pk", "name"))
    # One array: thousands of parameters take longer to send than to look up.
    is_cited = Q(pk__in=RawSQL("SELECT unnest(%s::bigint[])", [[pk for pk, _ in cited]]))
    days = [first + timedelta(days=n) for n in range(DAYS)]
    return DashboardFigures(
        days={day: by_day.get(day, QueryFigures()) for day in days},
        whole=by_day[None],
        cited=tuple([(pk, names[pk], n) for pk, n in cited if pk in names][:N_FILES]),
        never_cited=tuple(
            files.exclude(is_cited).order_by("pk").values_list("pk", "name")[:N_FILES]
        ),
        # Not counted by what is missing from a long list, which reads it for every file.
        n_never_cited=files.count() - files.filter(is_cited).count(),
    )

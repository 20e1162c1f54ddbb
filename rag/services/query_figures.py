"""How many queries there were, how fast and how good. In: logged queries. Out: sums by day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from rag import models

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
    with connection.cursor() as cursor:
        cursor.execute(_FIGURES.format(rows=sql), [GOOD, zone, *params])
        return {day: QueryFigures(*figures) for day, *figures in cursor.fetchall()}

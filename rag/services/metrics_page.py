"""What Prometheus reads. In: the table of counts, and the database as it is. Out: its text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db import connection
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from rag.services.metrics_store import BUCKETS_S

PREFIX = "citable_"
_BOUNDS = [f"{bound:g}" for bound in BUCKETS_S] + ["+Inf"]
# name, help, labels, and rows of (labels..., value).
_GAUGES: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("jobs", "Jobs in the queue, by what becomes of them.", ("queue", "status"),
     "SELECT queue_name, status::text, count(*) FROM procrastinate_jobs"
     " WHERE status IN ('todo', 'doing', 'failed') GROUP BY 1, 2"),
    ("oldest_job_age_seconds", "How long the oldest job that could run has waited.", ("queue",),
     "SELECT j.queue_name, extract(epoch FROM now() - min(coalesce(j.scheduled_at, e.at)))"
     " FROM procrastinate_jobs j LEFT JOIN LATERAL (SELECT min(at) AS at FROM procrastinate_events"
     " WHERE job_id = j.id) e ON true WHERE j.status = 'todo'"
     " AND (j.scheduled_at IS NULL OR j.scheduled_at <= now()) GROUP BY 1"),
    ("workers", "Queue workers that have given a sign of life within a minute.", (),
     "SELECT count(*) FROM procrastinate_workers"
     " WHERE last_heartbeat > now() - interval '1 minute'"),
    ("files", "Files, by what happens to them.", ("status",),
     "SELECT status, count(*) FROM rag_file GROUP BY 1"),
    ("chunks", "Chunks of local stores that can be found.", (),
     "SELECT coalesce(sum(n_chunks), 0) FROM rag_store"),
    ("answers_at_work", "Answers of agents that are being written.", (),
     "SELECT count(*) FROM agents_message WHERE status = 'running'"),
    ("database_bytes", "Size of the database.", (),
     "SELECT pg_database_size(current_database())"),
)  # fmt: skip


def metrics_page() -> bytes:
    """Return the sums of all processes, and gauges, in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Stored())
    return generate_latest(registry)


class _Stored:
    def collect(self) -> Iterator[Metric]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT name, labels, value FROM rag_metric ORDER BY name, labels")
            yield from _families(cursor.fetchall())
            for name, told, labels, statement in _GAUGES:
                gauge = GaugeMetricFamily(PREFIX + name, told, labels=labels)
                cursor.execute(statement)
                for *values, n in cursor.fetchall():
                    gauge.add_metric([str(value) for value in values], float(n or 0))
                yield gauge


def _families(rows: Sequence[tuple[str, str, float]]) -> Iterator[Metric]:
    counters: dict[str, list[tuple[dict[str, str], float]]] = {}
    sums: dict[str, dict[str, float]] = {}
    buckets: dict[str, dict[str, dict[str, float]]] = {}
    for name, packed, value in rows:
        labels = json.loads(packed)
        if name.endswith("_bucket"):
            bound, rest = labels.pop("le"), json.dumps(labels)
            times = buckets.setdefault(name.removesuffix("_bucket"), {})
            times.setdefault(rest, {})[bound] = value
        elif name.endswith("_sum"):
            sums.setdefault(name.removesuffix("_sum"), {})[packed] = value
        else:
            counters.setdefault(name.removesuffix("_total"), []).append((labels, value))
    for name, found in counters.items():
        names = _label_names(labels for labels, _ in found)
        counter = CounterMetricFamily(PREFIX + name, _told(name), labels=names)
        for labels, value in found:
            counter.add_metric([labels.get(one, "") for one in names], value)
        yield counter
    for name, times in buckets.items():
        yield _histogram(name, times, sums.get(name, {}))


def _histogram(name: str, times: Mapping[str, Any], sums: Mapping[str, float]) -> Metric:
    names = _label_names(json.loads(packed) for packed in times)
    family = HistogramMetricFamily(PREFIX + name, _told(name), labels=names)
    for packed, counts in times.items():
        labels, n, told = json.loads(packed), 0.0, []
        for bound in _BOUNDS:
            n += counts.get(bound, 0.0)
            told.append((bound, n))
        values = [labels.get(one, "") for one in names]
        family.add_metric(values, told, sum_value=sums.get(packed, 0.0))
    return family


def _label_names(labels: Any) -> list[str]:
    return sorted({name for one in labels for name in one})


def _told(name: str) -> str:
    return f"{name.replace('_', ' ').capitalize()}, of all processes."

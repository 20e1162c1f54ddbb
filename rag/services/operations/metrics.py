"""Prometheus metrics: counters and histograms of all processes summed in a table, and gauges."""

from __future__ import annotations

import atexit
import json
import logging
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from django.db import DatabaseError, InterfaceError, connection
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from rag.core import metrics
from rag.providers import procrastinate_queue as queue
from rag.providers.postgres.db.connections import execute, fetch_rows

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
EVERY_S = 5.0
# Labels are few by intention; a fault must not fill the table.
MAX_SERIES = 5000
Series = tuple[str, str]
log = logging.getLogger(__name__)
_ADD = """
INSERT INTO rag_metric AS m (name, labels, value)
SELECT * FROM unnest(%s::text[], %s::text[], %s::float8[])
ON CONFLICT (name, labels) DO UPDATE SET value = m.value + excluded.value
"""
PREFIX = "citable_"
_BOUNDS = [f"{bound:g}" for bound in BUCKETS_S] + ["+Inf"]
# name, help, labels, and rows of (labels..., value).
_GAUGES: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    *queue.GAUGES,
    (
        "files",
        "Files, by what happens to them.",
        ("status",),
        "SELECT status, count(*) FROM rag_file GROUP BY 1",
    ),
    (
        "chunks",
        "Chunks of local stores that can be found.",
        (),
        "SELECT coalesce(sum(n_chunks), 0) FROM rag_store",
    ),
    (
        "answers_at_work",
        "Answers of agents that are being written.",
        (),
        "SELECT count(*) FROM agents_message WHERE status = 'running'",
    ),
    ("database_bytes", "Size of the database.", (), "SELECT pg_database_size(current_database())"),
)


class MetricsWatcher:
    """``rag.core.metrics.MetricsListener`` that adds up in memory and sends on now and then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unsent: Counter[Series] = Counter()
        self._known: set[Series] = set()

    def count(self, name: str, n: float, labels: Mapping[str, str]) -> None:
        """Add to a counter."""
        self._add([((f"{name}_total", _packed(labels)), n)])

    def time(self, name: str, seconds: float, labels: Mapping[str, str]) -> None:
        """Add to a histogram; a bucket holds what is above the bucket before it."""
        at = bisect_left(BUCKETS_S, seconds)
        bound = f"{BUCKETS_S[at]:g}" if at < len(BUCKETS_S) else "+Inf"
        packed, whole = _packed({**labels, "le": bound}), f"{name}_seconds"
        self._add([((f"{whole}_bucket", packed), 1), ((f"{whole}_sum", _packed(labels)), seconds)])

    def span(self, name: str, facts: Mapping[str, Any], is_current: bool) -> None:
        """Spans are no metrics."""

    def flush(self) -> bool:
        """Send on what was counted; return False when the database takes nothing now."""
        with self._lock:
            sent, self._unsent = self._unsent, Counter()
        # In one order for all, so that no two processes wait for each other.
        rows = sorted(sent.items())
        if not rows:
            return True
        names, labels = [series[0] for series, _ in rows], [series[1] for series, _ in rows]
        try:
            execute(_ADD, [names, labels, [float(n) for _, n in rows]])
        except (DatabaseError, InterfaceError) as error:
            with self._lock:
                self._unsent.update(sent)
            log.warning("the metrics wait for the database: %s", type(error).__name__)
            return False
        return True

    def _add(self, amounts: Iterable[tuple[Series, float]]) -> None:
        with self._lock:
            for series, n in amounts:
                if series not in self._known:
                    if len(self._known) >= MAX_SERIES:
                        continue
                    self._known.add(series)
                self._unsent[series] += n  # type: ignore[assignment]


@lru_cache(maxsize=1)
def start_metrics() -> MetricsWatcher:
    """Let this process count, and send on from a thread of its own; once a process."""
    watcher = MetricsWatcher()
    metrics.LISTENERS.append(watcher)

    def send() -> None:
        while True:
            time.sleep(EVERY_S)
            watcher.flush()
            connection.close()

    threading.Thread(target=send, name="metrics", daemon=True).start()
    atexit.register(watcher.flush)
    return watcher


def flush_metrics() -> None:
    """Send on what this process has counted, if it counts."""
    for watcher in metrics.LISTENERS:
        if isinstance(watcher, MetricsWatcher):
            watcher.flush()


def _packed(labels: Mapping[str, str]) -> str:
    return json.dumps({name: str(labels[name])[:120] for name in sorted(labels)})


def metrics_page() -> bytes:
    """Return the sums of all processes, and gauges, in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Stored())
    return generate_latest(registry)


class _Stored:
    def collect(self) -> Iterator[Metric]:
        yield from _families(
            fetch_rows("SELECT name, labels, value FROM rag_metric ORDER BY name, labels")
        )
        for name, told, labels, statement in _GAUGES:
            gauge = GaugeMetricFamily(PREFIX + name, told, labels=labels)
            for *values, n in fetch_rows(statement):
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
        counter = CounterMetricFamily(PREFIX + name, _help_text(name), labels=names)
        for labels, value in found:
            counter.add_metric([labels.get(one, "") for one in names], value)
        yield counter
    for name, times in buckets.items():
        yield _histogram(name, times, sums.get(name, {}))


def _histogram(name: str, times: Mapping[str, Any], sums: Mapping[str, float]) -> Metric:
    names = _label_names(json.loads(packed) for packed in times)
    family = HistogramMetricFamily(PREFIX + name, _help_text(name), labels=names)
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


def _help_text(name: str) -> str:
    return f"{name.replace('_', ' ').capitalize()}, of all processes."

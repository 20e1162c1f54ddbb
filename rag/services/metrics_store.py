"""Counts and times of all processes together. In: what ``rag.core.watch`` tells. Out: sums.

Each process adds what it has counted to one table every few seconds, so that any of them tells
the sums of all, workers' and other machines' too. A crash of a process loses those seconds.
"""

from __future__ import annotations

import atexit
import json
import logging
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from django.db import DatabaseError, InterfaceError, connection

from rag.core import watch

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


class MetricsWatcher:
    """``rag.core.watch.Watcher`` that adds up in memory and sends on now and then."""

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
            with connection.cursor() as cursor:
                cursor.execute(_ADD, [names, labels, [float(n) for _, n in rows]])
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
    watch.WATCHERS.append(watcher)

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
    for watcher in watch.WATCHERS:
        if isinstance(watcher, MetricsWatcher):
            watcher.flush()


def _packed(labels: Mapping[str, str]) -> str:
    return json.dumps({name: str(labels[name])[:120] for name in sorted(labels)})

"""Search benchmark: latency and throughput of the index and the service."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np

from benchmarks.clients import queries_per_second
from benchmarks.record import Report
from benchmarks.search_world import World
from benchmarks.synthetic import Question
from rag.core.access import Scope
from rag.core.hits import Hit
from rag.core.ports import IndexQuery
from rag.core.types import RetrievalSettings, SearchResult
from rag.providers.postgres.search.index import PostgresIndex
from rag.services.search import retrieve
from rag.services.search.engine import run_search
from rag.services.wiring import registry as wiring

TOP_K = 10
CLIENTS = (1, 2, 4, 8)
T = TypeVar("T")


def measure_speed(report: Report, world: World, is_full: bool) -> None:
    """Print times of the statement and of the service around it, and searches a second."""
    hybrid = RetrievalSettings(mode="hybrid", top_k=TOP_K)
    queries = [resolved(world, question, hybrid) for question in world.questions]
    index = PostgresIndex()
    timed(index.search, queries)
    times = timed(index.search, queries)
    report.add("hybrid SQL: p50 ms", float(np.percentile(times, 50)), most=8 if is_full else 4)
    report.add("hybrid SQL: p95 ms", float(np.percentile(times, 95)), most=30 if is_full else 10)
    for mode in ("semantic", "keyword"):
        settings = hybrid.but(mode=mode)
        legs = [resolved(world, question, settings) for question in world.questions]
        middle = float(np.percentile(timed(index.search, legs), 50))
        report.add(f"{mode} SQL: p50 ms", middle, is_kept=False)
    added: list[float] = []

    def serve(question: Question) -> None:
        begun = time.perf_counter()
        times_ms = ask(world, question, hybrid).timings_ms
        added.append((time.perf_counter() - begun) * 1e3 - times_ms["sql"] - times_ms["embed"])

    timed(serve, world.questions[:300])
    report.add("service: added to the SQL, p50 ms", float(np.percentile(added, 50)), most=3)
    report.add("service: added to the SQL, p95 ms", float(np.percentile(added, 95)), is_kept=False)
    for n in CLIENTS:
        least = 400 if n == 4 and not is_full else None
        report.add(f"searches/s, {n} clients", queries_per_second(queries, n), least=least)


def ask(world: World, question: Question, settings: RetrievalSettings) -> SearchResult:
    """Return what the search of all edges finds, logged as theirs are."""
    return retrieve(
        query=question.text,
        scope=Scope.operator(),
        stores=[world.store],
        settings=settings,
        purpose="test",
    )


def resolved(world: World, question: Question, settings: RetrievalSettings) -> IndexQuery:
    """Return what the service hands to the index for a question."""
    taken = _Taker()
    with patch.object(wiring, "index", lambda: taken):
        run_search(
            query=question.text,
            scope=Scope.operator(),
            stores=[world.store],
            settings=settings,
        )
    return taken.queries[0]


class _Taker:
    """An index that finds nothing and keeps what it was asked."""

    def __init__(self) -> None:
        self.queries: list[IndexQuery] = []

    def search(self, query: IndexQuery) -> tuple[list[Hit], dict[int, str]]:
        self.queries.append(query)
        return [], {}


def timed(work: Callable[[T], Any], items: Sequence[T]) -> list[float]:
    """Return how many milliseconds ``work`` took on each item."""
    times = []
    for item in items:
        begun = time.perf_counter()
        work(item)
        times.append((time.perf_counter() - begun) * 1e3)
    return times

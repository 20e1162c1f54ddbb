"""Cache benchmark: a failing Redis, and a stampede on one entry."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from unittest.mock import patch

import numpy as np
from django.db import connections

from benchmarks.record import Report
from benchmarks.search_world import KnownVectors, World, known_vectors
from benchmarks.synthetic import Question
from rag.core.access import Scope
from rag.core.types import RetrievalSettings, SearchResult
from rag.services.search import retrieval, retrieve
from rag.services.search.result_cache import cache_region
from rag.services.search.retrieval import RetrievalRequest
from tests.fakes.valkey_server import OwnValkey

SETTINGS = RetrievalSettings(top_k=10)
N_FIRST = 100
N_AT_ONCE = 50


def measure_failure(report: Report, world: World, server: OwnValkey, how: str) -> None:
    """Print what the first hundred searches after the server's end pay for it, one by one.

    All are misses, which ask the server most.
    """
    from benchmarks.cache import use  # it runs this

    server.start()
    use(server.url)
    before = [_spent(world, question) for question in _new(world, 100, f"b{how}")]
    (server.freeze if how == "frozen" else server.kill)()
    after = [_spent(world, question) for question in _new(world, N_FIRST, how)]
    errors = sum(cache_region(kind).own()["errors"] for kind in ("results", "vectors"))
    server.start()
    usual = float(np.percentile(before, 50))
    report.add(f"server {how}: added at most, ms", max(after) - usual, most=20)
    report.add(f"server {how}: added, p95 ms", float(np.percentile(after, 95)) - usual, most=20)
    report.add(f"server {how}: calls that failed", errors, is_kept=False)


def measure_stampede(report: Report, world: World) -> None:
    """Print how many searches are run when fifty threads ask the same, and how long all take."""
    n_run: list[float] = []

    find = retrieval._retrieve_fresh

    def counted(request: RetrievalRequest) -> SearchResult:
        n_run.append(time.perf_counter())
        return find(request)

    (question,) = _new(world, 1, "stampede")
    gate = threading.Barrier(N_AT_ONCE)

    def one(_: int) -> float:
        gate.wait()
        begun = time.perf_counter()
        _ask(world, question)
        connections.close_all()
        return (time.perf_counter() - begun) * 1e3

    with patch.object(retrieval, "_retrieve_fresh", counted), ThreadPoolExecutor(N_AT_ONCE) as pool:
        times = list(pool.map(one, range(N_AT_ONCE)))
    report.add("50 who ask at once: searches", len(n_run), most=1)
    report.add("50 who ask at once: the last has it after ms", max(times), is_kept=False)


def _new(world: World, n: int, word: str) -> list[Question]:
    """Return questions that nobody has asked yet."""
    chosen = [world.questions[i % len(world.questions)] for i in range(n)]
    found = [replace(one, text=f"{one.text} {word}{i}") for i, one in enumerate(chosen)]
    KnownVectors.known.update(known_vectors(found))
    return found


def _spent(world: World, question: Question) -> float:
    """Return what both caches took: that of results, and that of vectors within the search."""
    times = _ask(world, question).timings_ms
    return times["cache"] + times["embed"]


def _ask(world: World, question: Question) -> SearchResult:
    return retrieve(
        query=question.text,
        scope=Scope.operator(),
        stores=[world.store],
        settings=SETTINGS,
        purpose="answer",
    )

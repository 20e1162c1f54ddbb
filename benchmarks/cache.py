"""Cache benchmark: what the result cache saves and costs.

Run ``python -m benchmarks.cache [--chunks N]`` (20,000). Works in a database and a Valkey of its
own, which it freezes and kills, and removes both.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.scratch import scratch_database

# isort: split
# Django is set up by now, so that models can be imported.
from benchmarks.cache_failures import measure_failure, measure_stampede
from benchmarks.cache_writes import measure_writes
from benchmarks.record import Report
from benchmarks.search_speed import timed
from benchmarks.search_world import World, build_world
from benchmarks.spool import Spool
from benchmarks.synthetic import Question, SyntheticCorpus
from rag.conf import conf
from rag.core.access import Scope
from rag.core.types import RetrievalSettings, SearchResult
from rag.providers.postgres.search.generations import read_states
from rag.services.search import result_cache, retrieve
from rag.services.search.result_cache import cache_region
from tests.fakes.valkey_server import OwnValkey

N_QUESTIONS = 400
SETTINGS = RetrievalSettings(top_k=10)


def main() -> int:
    """Measure everything and return the exit status: 1 after an error, not after a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=20_000)
    n = parser.parse_args().chunks
    report = Report(f"cache, {n:,} chunks")
    with TemporaryDirectory(prefix="citable-bench-") as folder, scratch_database():
        corpus = SyntheticCorpus()
        spool = Spool(Path(folder), corpus, n)
        numbers = np.random.default_rng(2).choice(n, min(n, N_QUESTIONS), replace=False)
        questions = [corpus.question(passage) for passage in spool.pick(numbers.tolist())]
        world = build_world(Report("printed only"), spool, questions)
        report.add("reading a store's state: p50 ms", _state(world), most=0.3)
        _measure_kept(report, world, "this process", "")
        with OwnValkey() as server:
            # A busy machine would open the breaker, and this measure what it leads to.
            _measure_kept(report, world, "Redis", f"{server.url}?socket_timeout=5")
            for how in ("frozen", "killed"):
                measure_failure(report, world, server, how)
        use("")
        measure_stampede(report, world)
        _measure_hit_rate(report, world)
        measure_writes(report, world, corpus)
    report.save()
    return 0


def use(redis_url: str) -> None:
    """Begin with empty caches, in front of this server or of none."""
    result_cache._own.cache_clear()
    result_cache._server.cache_clear()
    conf.cache_clear()
    object.__setattr__(conf(), "redis_url", redis_url)


def ask(world: World, question: Question, *, is_logged: bool = False) -> SearchResult:
    """Return what the cached search of all edges finds."""
    return retrieve(
        query=question.text,
        scope=Scope.operator(),
        stores=[world.store],
        settings=SETTINGS,
        purpose="search" if is_logged else "answer",
    )


def _state(world: World) -> float:
    times = timed(lambda _: read_states([world.store.pk]), range(500))
    return float(np.percentile(times, 50))


def _measure_kept(report: Report, world: World, place: str, redis_url: str) -> None:
    use(redis_url)
    for question in world.questions[:50]:
        _fresh(world, question)
    cache_region("results").get("opens the connection")
    # Each is a search with its whole time, the cache's part of it beside.
    missed = [ask(world, question).timings_ms for question in world.questions]
    added = [times["cache"] for times in missed]
    report.add(f"{place}: added to a miss, p50 ms", float(np.percentile(added, 50)), most=2)
    report.add(f"{place}: added to a miss, p95 ms", float(np.percentile(added, 95)), is_kept=False)
    if redis_url:
        # Another process, as it were: what is found is in the server alone.
        result_cache._own.cache_clear()
        cache_region("results").get("opens the connection")
    hits = timed(lambda question: ask(world, question), world.questions)
    report.add(f"{place}: a hit, p50 ms", float(np.percentile(hits, 50)), most=2)
    report.add(f"{place}: a hit, p95 ms", float(np.percentile(hits, 95)), most=5)
    if not redis_url:
        totals = [times["total"] - times["cache"] for times in missed]
        report.add("a search without the cache, p50 ms", float(np.percentile(totals, 50)))
        logged = timed(lambda question: ask(world, question, is_logged=True), world.questions)
        report.add("a hit with its line in the log, p50 ms", float(np.percentile(logged, 50)))


def _fresh(world: World, question: Question) -> SearchResult:
    return retrieve(
        query=question.text,
        scope=Scope.operator(),
        stores=[world.store],
        settings=SETTINGS,
        purpose="evaluation",
    )


def _measure_hit_rate(report: Report, world: World) -> None:
    """Ask as people do: few questions often, most of them once or twice."""
    use("")
    ranks = np.random.default_rng(3).zipf(1.3, 2000)
    for rank in ranks:
        ask(world, world.questions[int(rank) % len(world.questions)])
    own = cache_region("results").own()
    expected = 1 - len({int(rank) % len(world.questions) for rank in ranks}) / len(ranks)
    report.add("2,000 questions of people: share of hits", own["hits"] / len(ranks), least=expected)


if __name__ == "__main__":
    sys.exit(main())

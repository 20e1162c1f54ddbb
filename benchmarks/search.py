"""Speed, size and recall of the index on made-up chunks. In: a number. Out: a row of figures.

Run ``python -m benchmarks.search [--chunks N | --full]`` (100,000; full: 1,000,000). Works in a
database of its own and drops it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.scratch import scratch_database

# isort: split
# Django is set up by now, so that models can be imported.
from benchmarks.clients import queries_per_second
from benchmarks.live_document import measure_live_document
from benchmarks.record import Report
from benchmarks.search_world import SHARES, KnownVectors, World, build_world
from benchmarks.spool import Spool
from benchmarks.synthetic import PER_DOCUMENT, Question, SyntheticCorpus
from rag.core.access import Scope
from rag.core.ports import FileFilter, IndexQuery, StoreTarget
from rag.core.types import RetrievalSettings
from rag.providers.postgres.search import PostgresIndex
from rag.services.search import search
from rag.stages.terms import is_han, is_identifier, query_terms

T = TypeVar("T")
N_QUESTIONS = 500
N_EXACT = 100
TOP_K = 10
CLIENTS = (1, 2, 4, 8)


def resolve(world: World, question: Question, settings: RetrievalSettings) -> IndexQuery:
    """Return a question as the service would hand it to the index."""
    store = world.store
    target = StoreTarget(
        store.pk, store.space_id, len(question.vector), store.n_chunks, sees_restricted=True,
        share=1.0, has_hnsw=True,
    )  # fmt: skip
    terms = query_terms(question.text) if settings.mode != "semantic" else {}
    return IndexQuery(
        targets=[target], group_ids=frozenset(), vectors={store.space_id: question.vector},
        terms=terms, settings=settings, codes=frozenset(filter(is_identifier, terms)),
        is_han=is_han(question.text), top_k=TOP_K,
    )  # fmt: skip


def measure_speed(report: Report, world: World, is_full: bool) -> None:
    """Print times of the statement and of the service around it, and searches a second."""
    hybrid = RetrievalSettings(mode="hybrid", top_k=TOP_K)
    queries = [resolve(world, question, hybrid) for question in world.questions]
    index = PostgresIndex()
    timed(lambda query: index.search(query), queries[:100])
    times = timed(lambda query: index.search(query), queries)
    report.add("hybrid SQL: p50 ms", float(np.percentile(times, 50)), most=8 if is_full else 4)
    report.add("hybrid SQL: p95 ms", float(np.percentile(times, 95)), most=30 if is_full else 10)
    for mode in ("semantic", "keyword"):
        some = RetrievalSettings(mode=mode, top_k=TOP_K)
        legs = [resolve(world, question, some) for question in world.questions]
        if mode == "keyword":
            legs = [replace(query, vectors={}) for query in legs]
        middle = float(np.percentile(timed(index.search, legs), 50))
        report.add(f"{mode} SQL: p50 ms", middle, is_kept=False)
    KnownVectors.known.update({question.text: question.vector for question in world.questions})
    added: list[float] = []

    def serve(question: Question) -> None:
        begun = time.perf_counter()
        result = search(
            query=question.text, scope=Scope.operator(), stores=[world.store], settings=hybrid
        )
        spent = (time.perf_counter() - begun) * 1e3
        added.append(spent - result.timings_ms["sql"] - result.timings_ms["embed"])

    timed(serve, world.questions[:300])
    report.add("service: added to the SQL, p50 ms", float(np.percentile(added, 50)), most=3)
    report.add("service: added to the SQL, p95 ms", float(np.percentile(added, 95)), is_kept=False)
    for n in CLIENTS:
        least = 400 if n == 4 and not is_full else None
        report.add(f"searches/s, {n} clients", queries_per_second(queries, n), least=least)


def measure_recall(report: Report, world: World, is_full: bool) -> None:
    """Print recall@10 of the vector index against exact answers, without and with filters."""
    semantic = RetrievalSettings(mode="semantic", top_k=TOP_K)
    questions = world.questions[:N_EXACT]
    everything = np.arange(world.spool.n)
    found = recall(world, questions, semantic, everything, None)
    report.add("recall@10: no filter", found[0], least=0.98)
    filtered: list[tuple[float, float]] = []
    for content_type, share in SHARES.items():
        matching = world.matching(content_type)
        typed = semantic.but(content_types=(content_type,))
        name = f"content type of {share} %"
        filtered.append(_filtered(report, world, name, typed, matching, None))
        ids = [file.pk for file in world.files if file.content_type == content_type]
        files = FileFilter(ids, len(matching))
        name = f"files of {share} %"
        filtered.append(_filtered(report, world, name, semantic, matching, files))
    one = FileFilter([world.files[7].pk], PER_DOCUMENT)
    within = everything[7 * PER_DOCUMENT : 8 * PER_DOCUMENT]
    filtered.append(_filtered(report, world, "one document", semantic, within, one))
    report.add("recall@10: the worst filter", min(share for share, _ in filtered), least=0.99)
    report.add("rows of min(k, matches): the worst filter", min(n for _, n in filtered), least=1)


def _filtered(
    report: Report, world: World, name: str, settings: RetrievalSettings,
    matching: NDArray[np.intp], files: FileFilter | None,
) -> tuple[float, float]:  # fmt: skip
    questions = world.questions[:N_EXACT]
    share, fewest, times = recall(world, questions, settings, matching, files)
    report.add(f"recall@10: {name}", share, least=0.99, is_kept=False)
    wanted = min(TOP_K, len(matching))
    report.add(f"fewest rows: {name}", fewest, least=wanted, is_kept=False)
    slow = float(np.percentile(times, 95))
    report.add(f"semantic SQL: {name}, p95 ms", slow, is_kept=False)
    return share, fewest / wanted


def recall(
    world: World, questions: Sequence[Question], settings: RetrievalSettings,
    matching: NDArray[np.intp], files: FileFilter | None,
) -> tuple[float, int, list[float]]:  # fmt: skip
    """Return recall of the nearest ten of ``matching``, the fewest rows returned, and the times."""
    vectors = world.spool.vectors[matching].astype(np.float32)
    index = PostgresIndex()
    k = min(TOP_K, len(matching))
    n_found, counts = 0, []
    queries = [replace(resolve(world, q, settings), files=files) for q in questions]
    times = timed(index.search, queries)
    for query, question in zip(queries, questions, strict=True):
        hits, _ = index.search(query)
        scores = vectors @ question.vector
        worst = np.partition(scores, -k)[-k]
        place = {int(number): i for i, number in enumerate(matching)}
        # Equal places up to float16 are equally right.
        n_found += sum(scores[place[hit.chunk_id - world.first_id]] >= worst - 1e-4 for hit in hits)
        counts.append(len(hits))
    return n_found / (k * len(questions)), min(counts), times


def timed(work: Callable[[T], object], items: Sequence[T]) -> list[float]:
    """Return how many milliseconds ``work`` took on each item."""
    times = []
    for item in items:
        begun = time.perf_counter()
        work(item)
        times.append((time.perf_counter() - begun) * 1e3)
    return times


def main() -> int:
    """Measure everything and return the exit status: 1 after an error, not after a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--full", action="store_true", help="1,000,000 chunks")
    options = parser.parse_args()
    n = 1_000_000 if options.full else options.chunks
    report = Report(f"search, {n:,} chunks")
    with TemporaryDirectory(prefix="citable-bench-") as folder, scratch_database():
        corpus = SyntheticCorpus()
        spool = Spool(Path(folder), corpus, n)
        numbers = np.random.default_rng(2).choice(n, min(n, N_QUESTIONS), replace=False)
        questions = [corpus.question(passage) for passage in spool.pick(numbers.tolist())]
        world = build_world(report, spool, questions)
        measure_speed(report, world, n > 500_000)
        measure_recall(report, world, n > 500_000)
        measure_live_document(report, world, corpus)
    report.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())

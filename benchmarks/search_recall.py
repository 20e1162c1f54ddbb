"""Search benchmark: recall of the vector index, with filters and without."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.record import Report
from benchmarks.search_speed import TOP_K, resolved, timed
from benchmarks.search_world import SHARES, World
from benchmarks.synthetic import PER_DOCUMENT
from rag.core.types import RetrievalSettings
from rag.providers.postgres.search.index import PostgresIndex

N_QUESTIONS = 200
ONE = 7


@dataclass(frozen=True, slots=True)
class Found:
    """Recall of the nearest ten, and the fewest rows of those that could be returned."""

    recall: float
    rows: float


def measure_recall(report: Report, world: World) -> None:
    """Print recall@10 against exact answers, and whether filters leave enough rows."""
    semantic = RetrievalSettings(mode="semantic", top_k=TOP_K)
    everything = np.arange(world.spool.n)
    found = compare(report, world, "no filter", semantic, everything)
    report.add("recall@10: no filter", found.recall, least=0.98)
    filtered = []
    for name, percent in SHARES.items():
        matching = world.matching(name)
        typed = semantic.but(content_types=(name,))
        filtered.append(compare(report, world, f"content type of {percent} %", typed, matching))
        marked = semantic.but(metadata={"share": name})
        filtered.append(compare(report, world, f"metadata of {percent} %", marked, matching))
    one = semantic.but(metadata={"number": ONE})
    matching = everything[ONE * PER_DOCUMENT : (ONE + 1) * PER_DOCUMENT]
    filtered.append(compare(report, world, "one document", one, matching))
    report.add("recall@10: the worst filter", min(f.recall for f in filtered), least=0.99)
    report.add("rows of min(k, matches): the worst filter", min(f.rows for f in filtered), least=1)


def compare(
    report: Report,
    world: World,
    name: str,
    settings: RetrievalSettings,
    matching: NDArray[np.intp],
) -> Found:
    """Print how the index does among the passages ``matching`` and return it."""
    questions = world.questions[:N_QUESTIONS]
    queries = [resolved(world, question, settings) for question in questions]
    index = PostgresIndex()
    times = timed(index.search, queries)
    vectors = world.spool.vectors[matching].astype(np.float32)
    place = {int(number): i for i, number in enumerate(matching)}
    k = min(TOP_K, len(matching))
    shares, counts = [], []
    for query, question in zip(queries, questions, strict=True):
        hits, _ = index.search(query)
        scores = vectors @ question.vector
        worst = np.partition(scores, -k)[-k]
        # Equal up to the database's float16 is equally right.
        right = [scores[place[hit.chunk_id - world.first_id]] >= worst - 1e-4 for hit in hits]
        shares.append(sum(right) / k)
        counts.append(len(hits) / k)
    found = Found(float(np.mean(shares)), min(counts))
    report.add(f"  {name}: recall@10", found.recall, is_kept=False)
    report.add(f"  {name}: fewest rows of min(k, matches)", found.rows, is_kept=False)
    report.add(f"  {name}: SQL, p50 ms", float(np.percentile(times, 50)), is_kept=False)
    report.add(f"  {name}: SQL, p95 ms", float(np.percentile(times, 95)), is_kept=False)
    return found

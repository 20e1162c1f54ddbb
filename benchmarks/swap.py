"""Migration benchmark: a store moves to another embedding model while it is queried.

Run ``python -m benchmarks.swap [--chunks N]`` (100,000). 20 queries a second come from a process of
their own, first while nothing happens, then while a second space is filled, indexed, swapped in,
rolled back and swapped in again. Each answer must be an exact one of the old space or of the new.
Works in a database of its own and drops it.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.scratch import scratch_database

# isort: split
# Django is set up by now, so that models can be imported.
from benchmarks.record import Report
from benchmarks.search_world import World, build_world
from benchmarks.spool import Spool
from benchmarks.swap_clients import ClientLoad, ClientReport, answer, ask_alone
from benchmarks.swap_models import NEW, use_models
from benchmarks.synthetic import SyntheticCorpus
from rag.core.access import Scope
from rag.services.reindex.move import force_swap, roll_back_space
from rag.services.reindex.runs import ReindexOptions, start_reindex
from rag.services.reindex.worker import run_reindex

N_QUESTIONS = 100
IDLE_S, AFTER_FLIP_S = 15.0, 3.0
OPERATOR = Scope.operator()


def main() -> int:
    """Measure everything and return the exit status: 1 after an error, not after a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    n = parser.parse_args().chunks
    report = Report(f"swap, {n:,} chunks")
    with TemporaryDirectory(prefix="citable-bench-") as folder, scratch_database():
        corpus = SyntheticCorpus()
        spool = Spool(Path(folder), corpus, n)
        numbers = np.random.default_rng(2).choice(n, min(n, N_QUESTIONS), replace=False)
        questions = [corpus.question(passage) for passage in spool.pick(numbers.tolist())]
        use_models(Path(folder), spool, questions)
        world = build_world(report, spool, questions)
        use_models(Path(folder), spool, questions)
        measure_move(report, world, Path(folder))
    report.save()
    return 0


def measure_move(report: Report, world: World, folder: Path) -> None:
    """Move the store under load and print what its askers met."""
    idle = ask_alone(world.store.pk, folder, IDLE_S)
    before = {q.text: answer(world.store.pk, q.text) for q in world.questions}
    run, _ = start_reindex(
        scope=OPERATOR,
        store=world.store,
        what="embeddings",
        model=NEW,
        options=ReindexOptions(is_forced=True, is_swapped=False),
    )
    begun = time.perf_counter()
    with ClientLoad(world.store.pk, folder) as asking:
        run_reindex(run_id=run.pk)
        built = time.perf_counter()
        run.refresh_from_db()
        flips: list[float] = []
        for deed in (force_swap, roll_back_space, force_swap):
            at = time.perf_counter()
            deed(run=run)
            flips.append((time.perf_counter() - at) * 1e3)
            time.sleep(AFTER_FLIP_S)
    during = asking.told
    after = {q.text: answer(world.store.pk, q.text) for q in world.questions}
    _add(report, idle, during)
    report.add("fill, index and judge: chunks/s", world.spool.n / (built - begun), is_kept=False)
    report.add("flip: slowest, ms", max(flips), is_kept=False)
    wrong = sum(hits not in (before[q], after[q]) for q, hits in during.answers)
    report.add("answers that are neither space's", wrong, most=0)
    report.add("recall@10 of the new index", run.report["recall"], is_kept=False)


def _add(report: Report, idle: ClientReport, during: ClientReport) -> None:
    report.add("idle: p95 ms", idle.percentile(95))
    report.add("moving: p95 ms", during.percentile(95), most=2 * idle.percentile(95))
    report.add("moving: searches", len(during.times_ms), is_kept=False)
    report.add("moving: failed", len(during.failed), most=0)
    report.add("moving: empty", sum(not hits for _, hits in during.answers), most=0)
    for one in during.failed[:3]:
        print(f"    {one}")


if __name__ == "__main__":
    sys.exit(main())

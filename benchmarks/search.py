"""Search benchmark: speed, size and recall of the index on synthetic chunks.

Run ``python -m benchmarks.search [--chunks N | --full]`` (100,000; full: 1,000,000, and the doctor
on them). Works in a database of its own and drops it.
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
from benchmarks.lifecycle_doctor import measure_doctor
from benchmarks.live_document import measure_live_document
from benchmarks.record import Report
from benchmarks.search_recall import measure_recall
from benchmarks.search_speed import measure_speed
from benchmarks.search_world import build_world
from benchmarks.spool import Spool
from benchmarks.synthetic import SyntheticCorpus

N_QUESTIONS = 500
FULL = 1_000_000


def main() -> int:
    """Measure everything and return the exit status: 1 after an error, not after a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--full", action="store_true", help=f"{FULL:,} chunks")
    options = parser.parse_args()
    n = FULL if options.full else options.chunks
    report = Report(f"search, {n:,} chunks")
    with TemporaryDirectory(prefix="citable-bench-") as folder, scratch_database():
        corpus = SyntheticCorpus()
        spool = Spool(Path(folder), corpus, n)
        numbers = np.random.default_rng(2).choice(n, min(n, N_QUESTIONS), replace=False)
        questions = [corpus.question(passage) for passage in spool.pick(numbers.tolist())]
        world = build_world(report, spool, questions)
        measure_speed(report, world, n >= FULL // 2)
        measure_recall(report, world)
        measure_live_document(report, world, corpus)
        if options.full:
            measure_doctor(report)
    report.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What operators do to a large store: words anew, a deletion, the doctor. Out: a row of figures.

Run ``python -m benchmarks.lifecycle [--chunks N]`` (100,000; ``benchmarks.search --full`` has the
doctor on a million). Works in a database of its own and drops it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.scratch import scratch_database

# isort: split
# Django is set up by now, so that models can be imported.
from benchmarks.lifecycle_doctor import measure_doctor
from benchmarks.lifecycle_files import measure_deletion
from benchmarks.lifecycle_words import measure_words
from benchmarks.record import Report
from benchmarks.search_world import build_world
from benchmarks.spool import Spool
from benchmarks.synthetic import SyntheticCorpus


def main() -> int:
    """Measure everything and return the exit status: 1 after an error, not after a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    n = parser.parse_args().chunks
    report = Report(f"lifecycle, {n:,} chunks")
    with TemporaryDirectory(prefix="citable-bench-") as folder, scratch_database():
        corpus = SyntheticCorpus()
        world = build_world(Report("the store"), Spool(Path(folder), corpus, n), [])
        measure_doctor(report)
        measure_deletion(report, world, corpus)
        measure_words(report, world.store)
    report.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())

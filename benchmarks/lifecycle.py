"""What operators do to a large store: words anew, a deletion, the doctor. Out: a row of figures.

Run ``python -m benchmarks.lifecycle [--chunks N | --full]`` (100,000; full: the doctor alone, on
1,000,000). Works in a database of its own and drops it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.scratch import scratch_database

# isort: split
# Django is set up by now, so that models can be imported.
from benchmarks.lifecycle_files import measure_deletion
from benchmarks.lifecycle_words import measure_words
from benchmarks.record import Report
from benchmarks.search_world import build_world
from benchmarks.spool import Spool
from benchmarks.synthetic import SyntheticCorpus
from rag.services.doctor import examine

FULL = 1_000_000


def main() -> int:
    """Measure everything and return the exit status: 1 after an error, not after a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--full", action="store_true", help=f"{FULL:,} chunks, the doctor alone")
    options = parser.parse_args()
    n = FULL if options.full else options.chunks
    report = Report(f"lifecycle, {n:,} chunks")
    with TemporaryDirectory(prefix="citable-bench-") as folder, scratch_database():
        corpus = SyntheticCorpus()
        world = build_world(Report("the store"), Spool(Path(folder), corpus, n), [])
        measure_doctor(report)
        if not options.full:
            measure_deletion(report, world, corpus)
            measure_words(report, world.store)
    report.save()
    return 0


def measure_doctor(report: Report) -> None:
    """Print how long all of ``rag_doctor``'s checks take, and how many errors they find."""
    times_s: dict[str, float] = {}
    n_errors = 0
    for name, took_s, findings in examine():
        times_s[name] = took_s
        for finding in findings:
            if finding.level == "error":
                n_errors += 1
                print(f"    {finding.check}: {finding.what}")
    report.add("doctor: s in all", sum(times_s.values()), most=60)
    for name in sorted(times_s, key=lambda name: -times_s[name])[:4]:
        report.add(f"doctor: {name}, s", times_s[name], is_kept=False)
    report.add("doctor: errors in a store that is right", n_errors, most=0)


if __name__ == "__main__":
    sys.exit(main())

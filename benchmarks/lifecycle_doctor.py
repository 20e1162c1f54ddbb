"""Lifecycle benchmark: duration and false alarms of the doctor."""

from __future__ import annotations

from benchmarks.record import Report
from rag.services.operations.doctor import run_checks


def measure_doctor(report: Report) -> None:
    """Print how long all of ``rag_doctor``'s checks take, and how many errors they find."""
    times_s: dict[str, float] = {}
    n_errors = 0
    for name, took_s, findings in run_checks():
        times_s[name] = took_s
        for finding in findings:
            if finding.level == "error":
                n_errors += 1
                print(f"    {finding.check}: {finding.what}")
    report.add("doctor: s in all", sum(times_s.values()), most=60)
    for name in sorted(times_s, key=lambda name: -times_s[name])[:4]:
        report.add(f"doctor: {name}, s", times_s[name], is_kept=False)
    report.add("doctor: errors in a store that is right", n_errors, most=0)

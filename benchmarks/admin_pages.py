"""Admin pages benchmark: how fast the admin answers with many rows.

Run ``python -m benchmarks.admin_pages [--files N]`` (100,000, with ten chunks each). Every list of
the admin with its filters, orders, far pages and search boxes, what forms complete, the first page
and the pages of rows, for a superuser and for an editor of a quarter of the stores. Works in a
database of its own and drops it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from statistics import median

from benchmarks.scratch import scratch_database

# isort: split
# Django is set up by now, so that models can be imported.
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from benchmarks.admin_addresses import desk_addresses, is_list
from benchmarks.admin_world import build_desk
from benchmarks.record import Report

GOAL_MS = 300
N_TIMES = 3


def main() -> int:
    """Measure everything and return the exit status: 1 after an error, not after a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    options = parser.parse_args()
    report = Report(f"desk, {options.files:,} files")
    with scratch_database():
        for person in build_desk(options.files):
            times = dict(_times(person))
            for address, ms in sorted(times.items(), key=lambda item: -item[1]):
                shown = f"{person} {address.removeprefix('/admin/')}"
                report.add(shown[:52], ms, most=GOAL_MS, is_kept=False)
            first = times.pop(reverse("admin:index"))
            lists = {where: ms for where, ms in times.items() if is_list(where)}
            report.add(f"{person}: slowest list, ms", max(lists.values()), most=GOAL_MS)
            report.add(f"{person}: median of the lists, ms", median(lists.values()))
            report.add(f"{person}: first page, ms", first, most=GOAL_MS)
            others = [ms for where, ms in times.items() if where not in lists]
            report.add(f"{person}: slowest other page, ms", max(others), most=GOAL_MS)
    report.save()
    return 0


def _times(person: User) -> Iterator[tuple[str, float]]:
    client = Client(headers={"host": "localhost"})
    client.force_login(person)
    for address in desk_addresses(person):
        took: list[float] = []
        for n in range(N_TIMES + 1):
            began = time.perf_counter()
            response = client.get(address)
            assert response.status_code == 200, (address, response.status_code)
            if n:
                took.append((time.perf_counter() - began) * 1e3)
        yield address, median(took)


if __name__ == "__main__":
    sys.exit(main())

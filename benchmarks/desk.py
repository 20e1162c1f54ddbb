"""How fast the desk answers with many rows. In: a number of files. Out: a row of figures.

Run ``python -m benchmarks.desk [--files N]`` (100,000, with ten chunks each). Every list of the
admin, its filters and search boxes, the first page and the pages of rows, for a superuser and for
an editor of a quarter of the stores. Works in a database of its own and drops it.
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
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from benchmarks.desk_world import build_desk, word
from benchmarks.record import Report
from rag import models

GOAL_MS = 300
N_TIMES = 3
ROWS_A_PAGE = 50
# Beside the bare lists: what people ask of the long ones.
ASKED = {
    "rag_file": ("q={rare}", "status__exact=error", "store={store}", "kind=pdf", "o=1", "p={far}"),
    "rag_chunk": (
        "q={rare}", "q={common}", "q={common}+{rare}", "q=nosuchword", "store={store}",
        "enabled__exact=0", "touched=edited", "touched=off", "live=no",
        "store={store}&q={rare}", "p={far}",
    ),
    "rag_querylog": ("q={rare}", "hits=none", "quality=low", "quality=citation", "store={store}"),
    "rag_goldenquestion": ("q=77", "expects=none", "store={store}"),
    "procrastinate_procrastinatejob": ("state=failed", "state=stalled"),
}  # fmt: skip


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
            lists = {where: ms for where, ms in times.items() if "/change/" not in where}
            first = lists.pop(reverse("admin:index"))
            report.add(f"{person}: slowest list, ms", max(lists.values()), most=GOAL_MS)
            report.add(f"{person}: median of the lists, ms", median(lists.values()))
            report.add(f"{person}: first page, ms", first, most=GOAL_MS)
            rows = [ms for where, ms in times.items() if "/change/" in where]
            report.add(f"{person}: slowest page of a row, ms", max(rows), most=GOAL_MS)
    report.save()
    return 0


def _times(person: User) -> Iterator[tuple[str, float]]:
    client = Client(headers={"host": "localhost"})
    client.force_login(person)
    for address in _addresses(person):
        took: list[float] = []
        for n in range(N_TIMES + 1):
            began = time.perf_counter()
            response = client.get(address)
            assert response.status_code == 200, (address, response.status_code)
            if n:
                took.append((time.perf_counter() - began) * 1e3)
        yield address, median(took)


def _addresses(person: User) -> Iterator[str]:
    store = models.Store.objects.earliest("pk")
    words = {"rare": word(1500), "common": word(0), "store": store.pk}
    yield reverse("admin:index")
    sizes = {"rag_file": models.File.objects.count(), "rag_chunk": models.Chunk.objects.count()}
    for model in admin.site._registry:
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        if not person.has_perm(f"{model._meta.app_label}.view_{model._meta.model_name}"):
            continue
        address = reverse(f"admin:{name}_changelist")
        yield address
        for asked in ASKED.get(name, ()):
            # In the middle of what the editor sees, who sees a quarter of all.
            far = max(1, sizes.get(name, 0) // ROWS_A_PAGE // 8)
            yield f"{address}?{asked.format(far=far, **words)}"
    file = models.File.objects.filter(store=store).earliest("pk")
    rows = (
        ("store", store), ("file", file), ("chunk", file.chunks.earliest("pk")),
        ("querylog", models.QueryLog.objects.filter(store_ids=[store.pk]).earliest("pk")),
        ("goldenquestion", models.GoldenQuestion.objects.filter(store=store).earliest("pk")),
    )  # fmt: skip
    for kind, row in rows:
        yield reverse(f"admin:rag_{kind}_change", args=[row.pk])


if __name__ == "__main__":
    sys.exit(main())

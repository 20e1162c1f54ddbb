"""Ingest benchmark, its worker process; prints what the files took as JSON."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.scratch import join_database

# isort: split
# Django is set up by now, so that models can be imported.
from rag import models
from rag.services.ingest.inline_worker import run_until_indexed
from rag.services.wiring import registry as wiring

Span = tuple[float, float]


def watched(work: Callable[..., Any], spans: list[Span]) -> Callable[..., Any]:
    """Return ``work``, noting when it ran."""

    def timed(*args: Any, **kwargs: Any) -> Any:
        begun = time.perf_counter()
        try:
            return work(*args, **kwargs)
        finally:
            spans.append((begun, time.perf_counter()))

    return timed


def covered(spans: Sequence[Span]) -> float:
    """Return how many seconds at least one of the spans was going on."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


def main() -> None:
    """Work the files off as ``rag_ingest`` does and print what it took."""
    join_database()
    ids = [int(word) for word in sys.argv[1:]]
    space_id = models.File.objects.values_list("store__space_id", flat=True).get(pk=ids[0])
    embedder: Any = wiring.embedder_of(space_id)
    embedder.embed_passages(["The model is loaded before the clock starts."])
    spans: list[Span] = []
    kind: Any = type(embedder)
    kind.embed_passages = watched(kind.embed_passages, spans)
    cpu, begun = time.process_time(), time.perf_counter()
    run_until_indexed(file_ids=ids, on_progress=lambda progress: None)
    wall = time.perf_counter() - begun
    n_cores = len(os.sched_getaffinity(0))
    result = {
        "wall_s": wall,
        "embed_share": covered(spans) / wall,
        "cpu_share": (time.process_time() - cpu) / (wall * n_cores),
        "worker_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "child_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()

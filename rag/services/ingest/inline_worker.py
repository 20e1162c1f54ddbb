"""Inline worker: runs the indexing queue inside a command, for machines without a worker."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from django.db import connections

from rag import models
from rag.providers.procrastinate_queue import work_until

POLL_S = 0.3


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """How far a set of files is; ``share`` counts the parts of files too, 0 to 1."""

    n_files: int
    n_done: int
    n_failed: int
    share: float


def run_until_indexed(
    *,
    file_ids: Sequence[int],
    on_progress: Callable[[IngestProgress], None],
    has_worker: bool = False,
) -> IngestProgress:
    """Return when every one of the files is completed or in error.

    Runs a worker in this process (``has_worker`` False); it shares the queue with any other.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(1, "worker") as pool:
        worker = None if has_worker else pool.submit(_run, stop)
        try:
            while True:
                progress = _progress(file_ids)
                on_progress(progress)
                if progress.n_done == progress.n_files:
                    return progress
                if worker is not None and worker.done():
                    worker.result()
                time.sleep(POLL_S)
        finally:
            stop.set()


def _progress(file_ids: Sequence[int]) -> IngestProgress:
    rows = models.File.objects.filter(pk__in=file_ids).values_list("status", "progress")
    states = models.File.Status
    # An idle file was taken out of the queue.
    ended = (states.COMPLETED, states.ERROR, states.IDLE)
    done = [status for status, _ in rows if status in ended]
    parts = sum(float(progress.get("share", 0)) for status, progress in rows if status not in ended)
    # A file that was deleted meanwhile is done too.
    n_done = len(done) + len(file_ids) - len(rows)
    share = min(1.0, (n_done + parts) / len(file_ids)) if file_ids else 1.0
    return IngestProgress(len(file_ids), n_done, done.count(states.ERROR), share)


def _run(stop: threading.Event) -> None:
    try:
        asyncio.run(work_until(stop))
    finally:
        connections.close_all()

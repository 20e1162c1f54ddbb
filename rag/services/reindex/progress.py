"""Progress of a reindex run: written to its row, throttled, and stopped when it was cancelled."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from rag import models
from rag.core.errors import CancelledError

States = models.ReindexRun.State
WRITE_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class ReindexProgress:
    """How far a run is; ``left_s`` is an estimate, None before there is one."""

    stage: str
    n_done: int
    n_total: int
    left_s: float | None


OnProgress = Callable[[ReindexProgress], None]


def ignore_progress(progress: ReindexProgress) -> None:
    """Hear of no progress."""


class ProgressRecorder:
    """Counts a stage of a run on its row, slows it down, and stops it when it was cancelled."""

    def __init__(
        self,
        run: models.ReindexRun,
        *,
        stage: str,
        n_total: int,
        on_progress: OnProgress = ignore_progress,
    ) -> None:
        """Begin a stage of ``n_total`` chunks; raise CancelledError when the run was cancelled."""
        self._run, self._stage, self._n_total = run, stage, n_total
        self._per_s = float(run.options.get("per_second") or 0)
        self._on_progress = on_progress
        self._began = self._written_at = time.monotonic()
        self._n_done = 0
        self._write(stage=stage, n_total=n_total, n_done=0)

    def tick(self, n: int, last: int = 0) -> None:
        """Note ``n`` more, the last of them ``last``; wait if it goes faster than is wanted."""
        self._n_done += n
        if last:
            self._run.position = last
        elapsed_s = time.monotonic() - self._began
        if self._per_s and (early_s := self._n_done / self._per_s - elapsed_s) > 0:
            time.sleep(early_s)
            elapsed_s += early_s
        if time.monotonic() - self._written_at >= WRITE_EVERY_S or self._n_done >= self._n_total:
            self._written_at = time.monotonic()
            self._write(n_done=self._n_done, position=self._run.position)
        left = max(0, self._n_total - self._n_done)
        left_s = left * elapsed_s / self._n_done if self._n_done else None
        self._on_progress(ReindexProgress(self._stage, self._n_done, self._n_total, left_s))

    def _write(self, **values: object) -> None:
        row = models.ReindexRun.objects.filter(pk=self._run.pk).exclude(state=States.CANCELLED)
        if not row.update(**values):
            raise CancelledError("The run was cancelled.")

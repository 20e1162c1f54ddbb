"""Reindex runs: validate an order, deduplicate it, queue its job, and record its progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.db import IntegrityError, transaction

from rag import models
from rag.core.access import Scope
from rag.core.errors import CancelledError, ConflictError, InvalidInputError, NotFoundError
from rag.providers.procrastinate_queue import defer
from rag.services.index import ensure_target_space

States = models.ReindexRun.State
Whats = models.ReindexRun.What


@dataclass(frozen=True, slots=True)
class ReindexOptions:
    """How a run goes.

    ``workers`` None: one batch at a time, words on all cores. ``per_second`` 0: no limit. nDCG@10
    may fall by ``margin``; ``data`` is a folder with judged questions; ``is_forced`` swaps whatever
    the gate says, ``is_swapped`` False never; ``only_stale`` leaves what would stay the same.
    """

    workers: int | None = None
    per_second: float = 0.0
    margin: float = 0.01
    data: str = ""
    is_forced: bool = False
    is_swapped: bool = True
    only_stale: bool = False

    def __post_init__(self) -> None:
        if self.workers is not None and not 1 <= self.workers <= 32:
            raise InvalidInputError(
                "{n} workers are not possible.", hint="Allowed: 1 to 32.", n=self.workers
            )
        if not 0 <= self.per_second < float("inf") or not 0 <= self.margin <= 1:
            raise InvalidInputError(
                "A speed or margin is out of range.",
                hint="Allowed: a speed of 0 or more, a margin from 0 to 1.",
            )


def start_reindex(
    *,
    scope: Scope,
    store: models.Store,
    what: str,
    file_ids: Sequence[int] | None = None,
    model: str = "",
    options: ReindexOptions | None = None,
) -> tuple[models.ReindexRun, bool]:
    """Return the run of this order and whether it is new; the same order twice is one run.

    ``model`` moves the store to that model's space. Orders for files never clash: a file that waits
    is not queued twice. Raises ForbiddenError, InvalidInputError, and ConflictError while another
    run makes the store's vectors or words.
    """
    store.require_editable(scope)
    store.require_local()
    if what not in Whats.values:
        raise InvalidInputError(
            "“{what}” cannot be indexed anew.",
            hint="Known: {known}.",
            what=what,
            known=", ".join(Whats.values),
        )
    if model and what != Whats.EMBEDDINGS:
        raise InvalidInputError(
            "Another model makes other vectors only.", hint="Choose embeddings to change the model."
        )
    target = ensure_target_space(store=store, model=model) if what == Whats.EMBEDDINGS else None
    if target is not None and file_ids is not None:
        raise InvalidInputError(
            "A store moves to another model with all its files.", hint="Name no files."
        )
    values = {
        "what": what,
        "model": model,
        "options": asdict(options or ReindexOptions()),
        "created_by_id": scope.user_id,
        "file_ids": None if file_ids is None else sorted(file_ids),
        "target": target,
        "source": store.space if target else None,
    }
    try:
        with transaction.atomic():
            return models.ReindexRun.objects.create(store=store, **values), True
    except IntegrityError:
        return _same_run(store, values), False


def _same_run(store: models.Store, values: dict[str, Any]) -> models.ReindexRun:
    """Return the run that stands in the way if it is the same order; raise ConflictError if not."""
    runs = models.ReindexRun.objects.filter(store=store)
    in_turn = runs.filter(what__in=(Whats.EMBEDDINGS, Whats.LEXICAL))
    clash = in_turn.filter(state__in=models.ReindexRun.BUSY).first() or runs.moves().first()
    wanted = (values["what"], values["target"], values["file_ids"])
    if clash is None or (clash.what, clash.target, clash.file_ids) != wanted:
        raise ConflictError(
            "The store “{name}” is being indexed anew already.",
            hint="Wait for that run, or cancel it.",
            name=store.name,
        )
    return clash


def queue_reindex(*, run_id: int, delay_s: int = 0) -> None:
    """Let a worker do the run; nothing happens when that waits already."""
    defer("rag.reindex_run", lock=f"reindex:{run_id}", delay_s=delay_s, run_id=run_id)


def rechunk_store(*, scope: Scope, store: models.Store) -> int:
    """Queue the store's files to be cut as it says now; return how many.

    Files with a template of their own stay, and so does what people did to chunks. The present
    chunks serve meanwhile. Raises ForbiddenError to who may not edit the store.
    """
    if store.is_remote:
        return 0
    files = models.File.objects.filter(store=store, splitter="", revision__gt=0)
    file_ids = list(files.order_by("pk").values_list("pk", flat=True))
    if file_ids:
        what = models.ReindexRun.What.CHUNKS
        run, _is_new = start_reindex(scope=scope, store=store, what=what, file_ids=file_ids)
        queue_reindex(run_id=run.pk)
    return len(file_ids)


def find_reindex(*, scope: Scope, run_id: int) -> models.ReindexRun:
    """Return a run of a store that ``scope`` may change; raise NotFoundError."""
    runs = models.ReindexRun.objects.readable(scope).select_related("store", "source", "target")
    run = runs.filter(pk=run_id).first()
    if run is None:
        raise NotFoundError("There is no reindex run {id}.", id=run_id)
    return run


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

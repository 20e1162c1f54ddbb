"""Sync runs: start, run, cancel and schedule the syncs of connections, with a report of each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import CancelledError, ConflictError, ProviderError, RAGError
from rag.providers.procrastinate_queue import defer
from rag.services.connectors.context import SyncContext
from rag.services.connectors.sync import SyncActions, SyncResult, known_documents, sync_files
from rag.services.plugins import make_plugin
from rag.services.usage import charged_to

States = models.SyncRun.State
# Steps that a run tells, of each kind; all are counted.
MAX_STEPS = 200
# A run without a sign of life for so long has lost its process.
LOST_AFTER = timedelta(minutes=20)
OnStep = Callable[[str, str], None]


def start_sync(
    *, scope: Scope, connection: models.Connection, is_queued: bool = True, **facts: Any
) -> models.SyncRun:
    """Queue a sync and return its run; one that is under way already is returned as it is.

    ``facts`` are further values of a new run, such as is_dry_run, is_forced, trigger and
    created_by. Without ``is_queued`` the caller runs it, and ConflictError is raised while another
    one is under way. Raises ForbiddenError to who may not change the store.
    """
    connection.store.require_editable(scope)
    with transaction.atomic():
        try:
            with transaction.atomic():
                run = models.SyncRun.objects.create(connection=connection, **facts)
        except IntegrityError:
            if not is_queued:
                raise ConflictError(
                    "A sync of “{name}” is under way.",
                    hint="Wait for its end, or stop it.",
                    name=connection.name,
                ) from None
            run = connection.runs.get(state__in=models.SyncRun.BUSY)
        if is_queued:
            # Also for a run whose job was taken out of the queue: it waits there once at most.
            defer("rag.sync_run", lock=f"connection:{connection.pk}", run_id=run.pk)
    return run


def cancel_sync(*, scope: Scope, run_ids: list[int]) -> int:
    """Stop runs that wait or run, within seconds; return how many. What was done stays."""
    runs = models.SyncRun.objects.editable(scope).filter(
        pk__in=run_ids, state__in=models.SyncRun.BUSY
    )
    return runs.update(state=States.CANCELLED, ended_at=timezone.now())


def start_due_syncs() -> int:
    """Queue the syncs that their schedules ask for now, and end runs that lost their process.

    Return how many were queued.
    """
    now = timezone.now()
    busy = models.SyncRun.objects.filter(state=States.RUNNING)
    for run_id in busy.filter(seen_at__lt=now - LOST_AFTER).values_list("pk", flat=True):
        fail_sync(run_id=run_id, error=ProviderError("The process of the sync was lost."))
    due = models.Connection.objects.exclude(schedule="").filter(next_run_at__lte=now)
    n_queued = 0
    for connection in due.select_related("store"):
        # The next time is kept first: what fails is tried again then, not in a minute.
        connection.next_run_at = now + models.Connection.EVERY[connection.schedule]
        connection.save(update_fields=["next_run_at"])
        trigger = models.SyncRun.Trigger.SCHEDULE
        start_sync(scope=Scope.operator(), connection=connection, trigger=trigger)
        n_queued += 1
    return n_queued


def fail_sync(*, run_id: int, error: RAGError) -> None:
    """End a run that is under way with the reason."""
    busy = models.SyncRun.objects.filter(pk=run_id, state__in=models.SyncRun.BUSY)
    busy.update(state=States.FAILED, error=error.as_dict(), ended_at=timezone.now())


def run_sync_job(*, run_id: int) -> None:
    """Carry out an ordered sync; its error is told on the row, not raised.

    A run that is over, or gone, is nothing to do; one whose worker died is begun anew.
    """
    with suppress(RAGError):
        run_sync(run_id=run_id)


def run_sync(
    *, run_id: int, any_folder: bool = False, on_step: OnStep = lambda what, path: None
) -> SyncResult | None:
    """Carry out a sync and return what it did; None for a run that is over.

    Its outcome is told on the row as well; what ends it early is raised: RAGError.
    """
    rows = models.SyncRun.objects.filter(pk=run_id)
    if not rows.filter(state__in=models.SyncRun.BUSY).update(
        state=States.RUNNING, seen_at=timezone.now(), n_listed=0
    ):
        return None
    run = rows.select_related("connection__store").get()
    steps = _Steps(on_step)
    try:
        with tempfile.TemporaryDirectory(prefix="sync-", dir=_folder()) as scratch:
            context = _context(run, Path(scratch), any_folder)
            with charged_to(user_id=run.connection.created_by_id):
                result = _sync(run, context, steps)
    except CancelledError:
        rows.update(steps=steps.told, counts=steps.counts)
        raise
    except RAGError as error:
        rows.update(steps=steps.told, counts=steps.counts)
        fail_sync(run_id=run_id, error=error)
        raise
    _keep_outcome(run, result, context, steps)
    return result


def _sync(run: models.SyncRun, context: SyncContext, steps: _Steps) -> SyncResult:
    connection = run.connection
    connector = make_plugin(kind="connector", name=connection.connector, options=connection.options)
    return sync_files(
        actions=SyncActions(connection.store, connector, context, connection.name),
        is_forced=run.is_forced,
        is_dry_run=run.is_dry_run,
        on_step=steps.done,
    )


def _context(run: models.SyncRun, scratch: Path, any_folder: bool) -> SyncContext:
    connection, running = run.connection, models.SyncRun.objects.filter(pk=run.pk)

    def tell(n_listed: int) -> None:
        alive = running.filter(state=States.RUNNING)
        if not alive.update(n_listed=n_listed, seen_at=timezone.now()):
            raise CancelledError("The sync was stopped.")

    kept = _folder() / str(connection.pk)
    kept.mkdir(mode=0o700, exist_ok=True)
    return SyncContext(
        known=known_documents(store=connection.store, label=connection.name),
        scratch=scratch,
        kept=kept,
        deadline=Deadline(connection.max_minutes * 60),
        limit=connection.max_documents,
        cursor=connection.cursor,
        any_folder=any_folder,
        on_tell=tell,
    )


def _folder() -> Path:
    folder = conf().connections_dir
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


class _Steps:
    """What a run has done so far, counted, the first of it by name."""

    def __init__(self, on_step: OnStep) -> None:
        self.counts: dict[str, int] = {}
        self.told: list[dict[str, Any]] = []
        self._on_step = on_step

    def done(self, what: str, path: str) -> None:
        """Note one step, and pass it on."""
        self.add(what, path)
        self._on_step(what, path)

    def add(self, what: str, path: str, error: RAGError | OSError | None = None) -> None:
        """Note one step, with the reason where it is none."""
        n = self.counts[what] = self.counts.get(what, 0) + 1
        if n <= MAX_STEPS and what != "marked":
            told: dict[str, Any] = {"what": what, "path": path}
            if isinstance(error, RAGError):
                told["error"] = error.as_dict()
            elif error is not None:
                told["error"] = ProviderError(
                    "It could not be read: {reason}.", reason=error
                ).as_dict()
            self.told.append(told)


def _keep_outcome(
    run: models.SyncRun, result: SyncResult, context: SyncContext, steps: _Steps
) -> None:
    plan = result.plan
    if run.is_dry_run:
        for what, paths in (
            ("new", list(plan.new)),
            ("changed", list(plan.changed)),
            ("renamed", [f"{known.path} → {path}" for path, known in plan.renamed.items()]),
            ("deleted", [known.path for known in plan.deleted]),
        ):
            for path in paths:
                steps.add(what, path)
    for path, error in result.failed:
        steps.add("failed", path, error)
    for path, reason in context.skipped.items():
        steps.add("skipped", path, reason)
    for path in plan.duplicates:
        steps.add("duplicate", path)
    counts = {**steps.counts, "same": plan.n_same, "kept": result.kept}
    now = timezone.now()
    ended = models.SyncRun.objects.filter(pk=run.pk, state=States.RUNNING)
    ended.update(
        state=States.DONE,
        counts={what: n for what, n in counts.items() if n and what != "marked"},
        steps=steps.told,
        error=context.early_end.as_dict() if context.early_end else None,
        ended_at=now,
        seen_at=now,
    )
    # What failed, or was not reached, must be looked at again: only a whole sync is gone on from.
    if not (run.is_dry_run or result.failed or context.early_end):
        models.Connection.objects.filter(pk=run.connection_id).update(cursor=context.cursor)

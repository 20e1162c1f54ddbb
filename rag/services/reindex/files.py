"""Reindex of files: queue their jobs once, then count those that have finished."""

from __future__ import annotations

from django.db.models import Q

from rag import models
from rag.core.access import Scope
from rag.services.files import cancel_files, requeue_files
from rag.services.reindex.progress import (
    OnProgress,
    ProgressRecorder,
    ReindexProgress,
    ignore_progress,
)

Whats = models.ReindexRun.What
FileStatus = models.File.Status
# What the parsers of this version call themselves; a test holds it against them.
PARSERS = frozenset(
    {
        "epub/2",
        "html/2",
        "libreoffice/3",
        "mail/2",
        "plain/3",
        "pypdfium2/3",
        "xberg/3",
    }
)


def reindex_files(*, run: models.ReindexRun, on_progress: OnProgress = ignore_progress) -> bool:
    """Queue the run's files, once; return True while some of their jobs wait or run."""
    if run.stage != "files":
        files = models.File.objects.filter(store=run.store_id)
        if run.file_ids is not None:
            files = files.filter(pk__in=run.file_ids)
        if run.options.get("only_stale"):
            files = files.filter(is_stale())
        file_ids = run.file_ids = list(files.order_by("pk").values_list("pk", flat=True))
        # Queued first: who dies in between queues them again, which changes nothing.
        requeue_files(
            store=run.store,
            file_ids=run.file_ids,
            fresh_vectors=run.what == Whats.ALL,
            from_text=run.what == Whats.CHUNKS,
            per_second=float(run.options.get("per_second") or 0),
        )
        models.ReindexRun.objects.filter(pk=run.pk).update(file_ids=run.file_ids)
        ProgressRecorder(run, stage="files", n_total=len(file_ids))
        run.stage = "files"
    return count_finished_files(run=run, on_progress=on_progress)


def is_stale() -> Q:
    """Return which files are not as this version would read them, or never were read."""
    unread = Q(status__in=(FileStatus.ERROR, FileStatus.IDLE))
    return unread | Q(n_chunks__gt=0) & ~Q(parser__in=PARSERS)


def count_finished_files(
    *, run: models.ReindexRun, on_progress: OnProgress = ignore_progress
) -> bool:
    """Count the run's files that have ended; return True while some have not."""
    rows = models.File.objects.filter(pk__in=run.file_ids or ())
    states = list(rows.values_list("status", flat=True))
    n_busy = sum(state in (FileStatus.PROCESSING, FileStatus.UPLOADING) for state in states)
    run.n_total = len(run.file_ids or ())
    run.n_done, run.n_failed = run.n_total - n_busy, states.count(FileStatus.ERROR)
    run.save(update_fields=["n_done", "n_failed", "n_total"])
    on_progress(ReindexProgress("files", run.n_done, run.n_total, None))
    return n_busy > 0


def cancel_waiting_files(*, run: models.ReindexRun) -> None:
    """Take those of the run's files that still wait out of the queue; their revisions serve."""
    if run.stage == "files":
        cancel_files(scope=Scope.operator(), file_ids=run.file_ids or ())

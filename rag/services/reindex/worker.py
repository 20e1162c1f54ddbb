"""Reindex job: run a step under an advisory lock, and record its state and error on the row."""

from __future__ import annotations

from django.utils import timezone

from rag import models
from rag.core.errors import CancelledError, RAGError
from rag.providers.postgres.vectors.backfill import reindex_lock
from rag.services.reindex.move import move_store
from rag.services.reindex.rebuild import reembed_store, reindex_files, reindex_terms
from rag.services.reindex.runs import OnProgress, ignore_progress

States = models.ReindexRun.State
Whats = models.ReindexRun.What
_STEPS = {Whats.LEXICAL.value: reindex_terms, Whats.EMBEDDINGS.value: reembed_store}


def run_reindex(*, run_id: int, on_progress: OnProgress = ignore_progress) -> bool:
    """Do what is left of a run; return True when jobs of its files are still under way.

    Its error is recorded on the row, not raised. A run that is over, or gone, is nothing to do.
    Raises OperationalError while another process is at it.
    """
    with reindex_lock(run_id):
        rows = models.ReindexRun.objects.select_related("store", "source", "target", "created_by")
        run = rows.filter(pk=run_id, state__in=models.ReindexRun.BUSY).first()
        if run is None:
            return False
        run.state, run.started_at = States.RUNNING, run.started_at or timezone.now()
        run.error = None
        started = rows.filter(pk=run_id, state__in=models.ReindexRun.BUSY)
        started.update(state=run.state, started_at=run.started_at, error=None)
        try:
            if run.target_id is not None:
                move_store(run=run, on_progress=on_progress)
                return False
            step = _STEPS.get(run.what, reindex_files)
            if step(run=run, on_progress=on_progress):
                return True
        except CancelledError:
            return False
        except RAGError as error:
            finish_reindex(run=run, state=States.FAILED, error=error)
            return False
        finish_reindex(run=run, state=States.DONE)
    return False


def finish_reindex(*, run: models.ReindexRun, state: str, error: RAGError | None = None) -> None:
    """End a run that was not cancelled meanwhile."""
    running = models.ReindexRun.objects.filter(pk=run.pk, state=States.RUNNING)
    running.update(
        state=state,
        error=error and error.as_dict(),
        ended_at=None if state == States.FAILED else timezone.now(),
    )
    run.refresh_from_db()


def resume_reindex(*, run: models.ReindexRun) -> models.ReindexRun:
    """Let a failed run wait again; one that is under way stays as it is."""
    models.ReindexRun.objects.filter(pk=run.pk, state=States.FAILED).update(
        state=States.WAITING, error=None
    )
    run.refresh_from_db()
    return run

"""Evaluation jobs: start, run, fail and cancel a run over a store's golden questions."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F

from rag import models
from rag.core.access import Scope
from rag.core.errors import CancelledError, InvalidInputError, RAGError
from rag.core.types import RetrievalSettings
from rag.providers.procrastinate_queue import defer
from rag.services.evaluation.golden_questions import check_editable
from rag.services.evaluation.runs import run_evaluation

States = models.EvaluationRun.State


def start_evaluation(
    *,
    scope: Scope,
    store: models.Store,
    settings: RetrievalSettings | None = None,
    facts: dict[str, Any] | None = None,
) -> models.EvaluationRun:
    """Queue the store's golden questions and return the run; the same order twice is one run.

    ``settings`` None are the store's own; ``facts`` are further values of a new run, such as label
    and created_by. Raises NotFoundError and ForbiddenError for a store that ``scope`` may not
    change, InvalidInputError when it has no question that expects something.
    """
    check_editable(scope=scope, store=store)
    n_questions = store.golden_questions.askable().count()
    if not n_questions:
        raise InvalidInputError(
            "The store “{name}” has no golden question that expects something.",
            hint="Write some, or import them as CSV.",
            name=store.name,
        )
    settings = settings or store.retrieval_settings
    run = models.EvaluationRun(
        store=store,
        space_id=store.live_space_id,
        model=store.space.model if store.space else "",
        settings=settings.as_dict(),
        settings_hash=settings.hash,
        state=States.WAITING,
        n_questions=n_questions,
        **(facts or {}),
    )
    with transaction.atomic():
        try:
            with transaction.atomic():
                run.save()
        except IntegrityError:
            run = store.evaluation_runs.get(
                settings_hash=settings.hash, state__in=models.EvaluationRun.BUSY
            )
        # Also for a run whose job was taken out of the queue: it waits there once at most.
        defer("rag.evaluation_run", lock=f"evaluation:{run.pk}", run_id=run.pk)
    return run


def run_evaluation_job(*, run_id: int) -> None:
    """Ask the questions of an ordered run; its error is told on the row, not raised.

    A run that is over, or gone, is nothing to do; one whose worker died is begun anew.
    """
    rows = models.EvaluationRun.objects.filter(pk=run_id)
    if not rows.filter(state__in=models.EvaluationRun.BUSY).update(state=States.RUNNING, n_done=0):
        return
    run = rows.select_related("store").get()
    # The store may have moved to another space since.
    run.space_id = run.store.live_space_id
    try:
        run_evaluation(run=run, on_result=lambda result: _count_done(run_id))
    except CancelledError:
        return
    except RAGError as error:
        fail_evaluation(run_id=run_id, error=error)


def fail_evaluation(*, run_id: int, error: RAGError) -> None:
    """End a run that is under way with the reason."""
    running = models.EvaluationRun.objects.filter(pk=run_id, state__in=models.EvaluationRun.BUSY)
    running.update(state=States.FAILED, error=error.as_dict())


def cancel_evaluation(*, scope: Scope, run_ids: list[int]) -> int:
    """Stop runs that wait or run, within one question; return how many.

    What ``scope`` may not change is passed over.
    """
    runs = models.EvaluationRun.objects.editable(scope).filter(pk__in=run_ids)
    return runs.filter(state__in=models.EvaluationRun.BUSY).update(state=States.CANCELLED)


def _count_done(run_id: int) -> None:
    running = models.EvaluationRun.objects.filter(pk=run_id, state=States.RUNNING)
    if not running.update(n_done=F("n_done") + 1):
        raise CancelledError("The run was cancelled.")

"""Evaluation runs and their jobs: ask a store's golden questions, score the rankings, save.

Every question goes through the search that everybody uses, by the settings that everybody has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F

from rag import models
from rag.core.access import Scope
from rag.core.errors import CancelledError, InvalidInputError, RAGError
from rag.core.types import RetrievalSettings, SearchResult
from rag.evals.metrics import mean_scores, score_each
from rag.providers.procrastinate_queue import defer
from rag.services.evaluation.golden_questions import (
    ExpectedTarget,
    check_editable,
    expected_targets,
    rank_targets,
)
from rag.services.search import override_space, retrieve

States = models.EvaluationRun.State
# The measures look at ten hits, however few a reader would be shown.
DEPTH = 10


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """A golden question, what it expects, and where that stands among the chunks found."""

    question: models.GoldenQuestion
    expected: Sequence[ExpectedTarget]
    ranking: list[str]
    chunk_ids: list[int]


def save_results(
    *, run: models.EvaluationRun, results: Sequence[QuestionResult]
) -> models.EvaluationRun:
    """Save the run, done, with a result for each question.

    Raises CancelledError when an ordered run was cancelled, or done by another worker.
    """
    judged = {
        str(one.question.pk): {str(t.target_id): t.grade for t in one.expected} for one in results
    }
    scores = score_each(judged, {str(one.question.pk): one.ranking for one in results})
    run.metrics = mean_scores(scores)
    with transaction.atomic():
        if run.pk is not None:
            rows = models.EvaluationRun.objects.select_for_update()
            if not rows.filter(pk=run.pk, state=States.RUNNING).exists():
                raise CancelledError("The run was cancelled.")
        run.state = States.DONE
        run.save()
        models.EvaluationResult.objects.bulk_create(
            models.EvaluationResult(
                run=run,
                question=one.question,
                query=one.question.query,
                n_expected=len(one.expected),
                metrics=scores[str(one.question.pk)],
                chunk_ids=one.chunk_ids,
                ranks=[n for n, name in enumerate(one.ranking, 1) if not name.startswith("c")],
            )
            for one in results
        )
    return run


OnResult = Callable[[QuestionResult], None]


def evaluation_search(
    *, query: str, store: models.Store, settings: RetrievalSettings
) -> SearchResult:
    """Ask one store as an operator; nothing is logged as somebody's query."""
    scope = Scope.operator()
    return retrieve(
        query=query, scope=scope, stores=[store], settings=settings, purpose="evaluation"
    )


def evaluate_store(
    *,
    store: models.Store,
    settings: RetrievalSettings | None = None,
    space_id: int | None = None,
    questions: Sequence[models.GoldenQuestion] | None = None,
    facts: dict[str, Any] | None = None,
    on_result: OnResult = lambda results: None,
) -> models.EvaluationRun:
    """Ask the store's golden questions and return the kept run.

    ``settings`` None are the store's own; ``space_id`` searches its vectors in another space than
    the live one; ``questions`` None are all that are enabled and expect something. ``facts`` are
    further values of the run, such as label and created_by. Expected passages that their files no
    longer hold are counted as lost and left out. Raises InvalidInputError when no question is left.
    Nothing is logged as a query. Not to be called in a transaction: models are asked.
    """
    settings = settings or store.retrieval_settings
    run = models.EvaluationRun(
        store=store,
        space_id=space_id or store.live_space_id,
        settings=settings.as_dict(),
        settings_hash=settings.hash,
        **(facts or {}),
    )
    return run_evaluation(run=run, questions=questions, on_result=on_result)


def run_evaluation(
    *,
    run: models.EvaluationRun,
    questions: Sequence[models.GoldenQuestion] | None = None,
    on_result: OnResult = lambda results: None,
) -> models.EvaluationRun:
    """Ask by the settings and in the space of a run, new or ordered, and keep it with its figures.

    Raises InvalidInputError when no question is left, CancelledError when the run was cancelled.
    """
    store, started = run.store, time.perf_counter()
    settings = RetrievalSettings.from_dict(run.settings)
    deep = settings.but(top_k=max(DEPTH, settings.top_k or 0))
    chosen = list(store.golden_questions.askable() if questions is None else questions)
    expected = expected_targets(question_ids=[question.pk for question in chosen])
    results: list[QuestionResult] = []
    space_id = None if run.space_id == store.live_space_id else run.space_id
    with override_space(store_id=store.pk, space_id=space_id):
        for question in chosen:
            wanted = [one for one in expected.get(question.pk, ()) if not one.is_lost]
            if not wanted:
                continue
            hits = evaluation_search(query=question.query, store=store, settings=deep).hits
            found = [hit.chunk_id for hit in hits if hit.chunk_id is not None]
            results.append(QuestionResult(question, wanted, rank_targets(wanted, hits), found))
            on_result(results[-1])
    if not results:
        raise _no_questions(store)
    run.model = models.EmbeddingSpace.objects.get(pk=run.space_id or store.live_space_id).model
    run.n_questions = run.n_done = len(results)
    run.n_lost = sum(one.is_lost for rows in expected.values() for one in rows)
    run.took_ms = round((time.perf_counter() - started) * 1e3, 1)
    return save_results(run=run, results=results)


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
        raise _no_questions(store)
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

    def count_done(result: QuestionResult) -> None:
        running = models.EvaluationRun.objects.filter(pk=run_id, state=States.RUNNING)
        if not running.update(n_done=F("n_done") + 1):
            raise CancelledError("The run was cancelled.")

    try:
        run_evaluation(run=run, on_result=count_done)
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


def _no_questions(store: models.Store) -> InvalidInputError:
    return InvalidInputError(
        "The store “{name}” has no golden question that expects something.",
        hint="Write some, or import them as CSV.",
        name=store.name,
    )

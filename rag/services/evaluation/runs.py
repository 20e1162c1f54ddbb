"""Evaluation runs: ask a store's golden questions, score the rankings, and save the results.

Every question goes through the search that everybody uses, by the settings that everybody has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from rag import models
from rag.core.access import Scope
from rag.core.errors import CancelledError, InvalidInputError
from rag.core.types import RetrievalSettings
from rag.evals.metrics import mean_scores, score_each
from rag.services.evaluation.golden_targets import ExpectedTarget, expected_targets, rank_targets
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
            hits = retrieve(
                query=question.query,
                scope=Scope.operator(),
                stores=[store],
                settings=deep,
                purpose="evaluation",
            ).hits
            found = [hit.chunk_id for hit in hits if hit.chunk_id is not None]
            results.append(QuestionResult(question, wanted, rank_targets(wanted, hits), found))
            on_result(results[-1])
    if not results:
        raise InvalidInputError(
            "The store “{name}” has no golden question that expects something.",
            hint="Write some, or import them as CSV.",
            name=store.name,
        )
    run.model = models.EmbeddingSpace.objects.get(pk=run.space_id or store.live_space_id).model
    run.n_questions = run.n_done = len(results)
    run.n_lost = sum(one.is_lost for rows in expected.values() for one in rows)
    run.took_ms = round((time.perf_counter() - started) * 1e3, 1)
    return save_results(run=run, results=results)

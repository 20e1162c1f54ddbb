"""What an evaluation found. In: a run and its questions. Out: the run, kept with its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from rag import models
from rag.core.errors import CancelledError
from rag.evals.metrics import mean_scores, score_each
from rag.services.golden_targets import Expected

States = models.EvaluationRun.State


@dataclass(frozen=True, slots=True)
class Asked:
    """A golden question, what it expects, and where that stands among the chunks found."""

    question: models.GoldenQuestion
    expected: Sequence[Expected]
    ranking: list[str]
    chunk_ids: list[int]


def keep_results(*, run: models.EvaluationRun, asked: Sequence[Asked]) -> models.EvaluationRun:
    """Save the run, done, with a result for each question.

    Raises CancelledError when an ordered run was cancelled, or done by another worker.
    """
    judged = {
        str(one.question.pk): {str(t.target_id): t.grade for t in one.expected} for one in asked
    }
    scores = score_each(judged, {str(one.question.pk): one.ranking for one in asked})
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
                run=run, question=one.question, query=one.question.query,
                n_expected=len(one.expected), metrics=scores[str(one.question.pk)],
                chunk_ids=one.chunk_ids,
                ranks=[n for n, name in enumerate(one.ranking, 1) if not name.startswith("c")],
            )
            for one in asked
        )  # fmt: skip
    return run

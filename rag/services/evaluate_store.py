"""How well a store answers its golden questions. In: a store. Out: a run with its results.

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
from rag.core.errors import InvalidInputError
from rag.core.hits import Hit
from rag.core.types import RetrievalSettings
from rag.evals.per_query import mean_scores, score_each
from rag.services.golden_ranks import rank_targets
from rag.services.golden_targets import Expected, expected_of
from rag.services.search import search
from rag.services.searched_space import searched_space

# The measures look at ten hits, however few a reader would be shown.
DEPTH = 10


@dataclass(frozen=True, slots=True)
class Asked:
    """A golden question, what it expects and what the search found."""

    question: models.GoldenQuestion
    expected: Sequence[Expected]
    hits: tuple[Hit, ...]


def evaluate_store(
    *,
    store: models.Store,
    settings: RetrievalSettings | None = None,
    space_id: int | None = None,
    questions: Sequence[models.GoldenQuestion] | None = None,
    facts: dict[str, Any] | None = None,
    on_asked: Callable[[Asked], None] = lambda asked: None,
) -> models.EvaluationRun:
    """Ask the store's golden questions and return the kept run.

    ``settings`` None are the store's own; ``space_id`` searches its vectors in another space than
    the live one; ``questions`` None are all that are enabled and expect something. ``facts`` are
    further values of the run, such as label and created_by. Expected passages that their files no
    longer hold are counted as lost and left out. Raises InvalidInputError when no question is left.
    Nothing is logged as a query. Not to be called in a transaction: models are asked.
    """
    settings = settings or store.retrieval_settings
    deep = settings.but(top_k=max(DEPTH, settings.top_k or 0))
    chosen = list(store.golden_questions.askable() if questions is None else questions)
    expected = expected_of(question_ids=[question.pk for question in chosen])
    started, asked = time.perf_counter(), []
    with searched_space(store_id=store.pk, space_id=space_id):
        for question in chosen:
            wanted = [one for one in expected.get(question.pk, ()) if not one.is_lost]
            if not wanted:
                continue
            found = search(
                query=question.query, scope=Scope.operator(), stores=[store], settings=deep,
                is_logged=False,
            )  # fmt: skip
            asked.append(Asked(question, wanted, found.hits))
            on_asked(asked[-1])
    if not asked:
        raise InvalidInputError(
            "The store “{name}” has no golden question that expects something.",
            hint="Write some, or import them as CSV.", name=store.name,
        )  # fmt: skip
    space = models.EmbeddingSpace.objects.get(pk=space_id or store.live_space_id)
    run = models.EvaluationRun(
        store=store, space=space, model=space.model, settings=settings.as_dict(),
        settings_hash=settings.hash, n_questions=len(asked),
        n_lost=sum(one.is_lost for rows in expected.values() for one in rows),
        took_ms=round((time.perf_counter() - started) * 1e3, 1), **(facts or {}),
    )  # fmt: skip
    return _keep(run, asked)


def _keep(run: models.EvaluationRun, asked: Sequence[Asked]) -> models.EvaluationRun:
    rankings = {str(one.question.pk): rank_targets(one.expected, one.hits) for one in asked}
    judged = {
        str(one.question.pk): {str(t.target_id): t.grade for t in one.expected} for one in asked
    }
    scores = score_each(judged, rankings)
    run.metrics = mean_scores(scores)
    with transaction.atomic():
        run.save()
        models.EvaluationResult.objects.bulk_create(
            models.EvaluationResult(
                run=run, question=one.question, query=one.question.query,
                n_expected=len(one.expected), metrics=scores[key],
                chunk_ids=[hit.chunk_id for hit in one.hits if hit.chunk_id is not None],
                ranks=[n for n, name in enumerate(rankings[key], 1) if not name.startswith("c")],
            )
            for one in asked for key in [str(one.question.pk)]
        )  # fmt: skip
    return run

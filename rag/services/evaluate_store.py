"""How well a store answers its golden questions. In: a store. Out: a run with its results.

Every question goes through the search that everybody uses, by the settings that everybody has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError
from rag.core.types import RetrievalSettings
from rag.services.evaluation_results import Asked, keep_results
from rag.services.golden_ranks import rank_targets
from rag.services.golden_targets import expected_of
from rag.services.search import search
from rag.services.searched_space import searched_space

# The measures look at ten hits, however few a reader would be shown.
DEPTH = 10


OnAsked = Callable[[Asked], None]


def evaluate_store(
    *,
    store: models.Store,
    settings: RetrievalSettings | None = None,
    space_id: int | None = None,
    questions: Sequence[models.GoldenQuestion] | None = None,
    facts: dict[str, Any] | None = None,
    on_asked: OnAsked = lambda asked: None,
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
        store=store, space_id=space_id or store.live_space_id, settings=settings.as_dict(),
        settings_hash=settings.hash, **(facts or {}),
    )  # fmt: skip
    return measure_run(run=run, questions=questions, on_asked=on_asked)


def measure_run(
    *,
    run: models.EvaluationRun,
    questions: Sequence[models.GoldenQuestion] | None = None,
    on_asked: OnAsked = lambda asked: None,
) -> models.EvaluationRun:
    """Ask by the settings and in the space of a run, new or ordered, and keep it with its figures.

    Raises InvalidInputError when no question is left, CancelledError when the run was cancelled.
    """
    store, started = run.store, time.perf_counter()
    settings = RetrievalSettings.from_dict(run.settings)
    deep = settings.but(top_k=max(DEPTH, settings.top_k or 0))
    chosen = list(store.golden_questions.askable() if questions is None else questions)
    expected = expected_of(question_ids=[question.pk for question in chosen])
    asked: list[Asked] = []
    space_id = None if run.space_id == store.live_space_id else run.space_id
    with searched_space(store_id=store.pk, space_id=space_id):
        for question in chosen:
            wanted = [one for one in expected.get(question.pk, ()) if not one.is_lost]
            if not wanted:
                continue
            hits = search(
                query=question.query, scope=Scope.operator(), stores=[store], settings=deep,
                is_logged=False,
            ).hits  # fmt: skip
            found = [hit.chunk_id for hit in hits if hit.chunk_id is not None]
            asked.append(Asked(question, wanted, rank_targets(wanted, hits), found))
            on_asked(asked[-1])
    if not asked:
        raise InvalidInputError(
            "The store “{name}” has no golden question that expects something.",
            hint="Write some, or import them as CSV.", name=store.name,
        )  # fmt: skip
    run.model = models.EmbeddingSpace.objects.get(pk=run.space_id or store.live_space_id).model
    run.n_questions = run.n_done = len(asked)
    run.n_lost = sum(one.is_lost for rows in expected.values() for one in rows)
    run.took_ms = round((time.perf_counter() - started) * 1e3, 1)
    return keep_results(run=run, asked=asked)

"""Answer evaluation: citation precision, refusal rate and expected citations of a chat model.

Hits, context, prompt and citation check are those of every answer; nothing is logged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from rag import models
from rag.core.access import Scope
from rag.core.ports import ChatModel
from rag.core.types import VERIFIED, Citation, RetrievalSettings
from rag.services.answers import answer_hits
from rag.services.evaluation.golden_questions import ExpectedTarget, expected_targets
from rag.services.evaluation.runs import evaluation_search
from rag.services.search import override_space
from rag.services.wiring.registry import chat_for


def evaluate_answers(
    *,
    run: models.EvaluationRun,
    model: str = "",
    on_answered: Callable[[models.EvaluationResult], None] = lambda result: None,
) -> models.EvaluationRun:
    """Ask the run's questions to ``model`` (``provider:model``; empty: the configured one).

    Adds to the run's figures citation_precision (quotes that stand word for word in their source),
    refusal_rate (answers without any citation) and expected_cited (answers that cite an expected
    passage); without any citation there is no precision. Raises ProviderError. Not to be called in
    a transaction.
    """
    chat = chat_for(scope=Scope.operator(), kind="ask", model=model, stores=[run.store])
    rows = list(run.results.filter(question__isnull=False).order_by("pk"))
    expected = expected_targets(question_ids=[row.question_id for row in rows if row.question_id])
    with override_space(store_id=run.store_id, space_id=run.space_id):
        for row in rows:
            row.answer = _answer_question(
                chat, run, row.query, expected.get(row.question_id or 0, ())
            )
            row.save(update_fields=["answer"])
            on_answered(row)
    run.chat_model = chat.id
    run.metrics = {**run.metrics, **_figures([row.answer for row in rows])}
    run.save(update_fields=["chat_model", "metrics"])
    return run


def _answer_question(
    chat: ChatModel, run: models.EvaluationRun, query: str, expected: Sequence[ExpectedTarget]
) -> dict[str, Any]:
    settings = RetrievalSettings.from_dict(run.settings)
    found = evaluation_search(query=query, store=run.store, settings=settings)
    answer = answer_hits(result=found, settings=settings, store=run.store, chat=chat)
    citations = answer.citations
    return {
        "citations": len(citations),
        "verified": sum(one.verdict in VERIFIED for one in citations),
        "is_refused": not citations,
        "cites_expected": any(_is_expected(one, expected) for one in citations),
    }


def _is_expected(citation: Citation, expected: Sequence[ExpectedTarget]) -> bool:
    return citation.verdict in VERIFIED and any(
        citation.file_id == one.file_id
        if one.chunk_ids is None
        else citation.chunk_id in one.chunk_ids
        for one in expected
    )


def _figures(answers: Sequence[dict[str, Any] | None]) -> dict[str, float]:
    answered = [answer for answer in answers if answer is not None]
    if not answered:
        return {}
    n_cited = sum(answer["citations"] for answer in answered)
    precision = (
        {"citation_precision": round(sum(answer["verified"] for answer in answered) / n_cited, 6)}
        if n_cited
        else {}
    )
    return {
        **precision,
        "refusal_rate": round(fmean(answer["is_refused"] for answer in answered), 6),
        "expected_cited": round(fmean(answer["cites_expected"] for answer in answered), 6),
    }

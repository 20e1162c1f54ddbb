"""Hit test: one question by given retrieval settings, with the context and expected targets."""

from __future__ import annotations

from dataclasses import dataclass

from rag import models
from rag.core.access import Scope
from rag.core.types import RetrievalSettings, SearchResult
from rag.services.answers import ContextBuilder
from rag.services.evaluation.golden_questions import ExpectedTarget, expected_targets
from rag.services.search import retrieve, validated_query
from rag.stages.prompting.abstention import doubt_notice
from rag.stages.prompting.context import Context


@dataclass(frozen=True, slots=True)
class HitTest:
    """What ``retrieve`` found by ``settings``, and the context that a model would read.

    ``notice`` says that the hits may not hold the answer. ``expected`` is what a golden question of
    these words wants.
    """

    settings: RetrievalSettings
    result: SearchResult
    context: Context
    notice: str
    expected: tuple[ExpectedTarget, ...]


def run_hit_test(
    *, query: str, scope: Scope, store: models.Store, settings: RetrievalSettings
) -> HitTest:
    """Ask one store as the API does, but past the cache, so that every step has its time.

    Raises what ``retrieve`` raises.
    """
    query = validated_query(query=query)
    found = retrieve(query=query, scope=scope, stores=[store], settings=settings, purpose="test")
    context = ContextBuilder(settings.context_tokens).build(
        query, found.hits, settings.context_type
    )
    questions = models.GoldenQuestion.objects.readable(scope).filter(store=store, query=query)
    ids = list(questions.values_list("pk", flat=True))
    expected = expected_targets(question_ids=ids).get(ids[0], []) if ids else []
    notice = doubt_notice(query, found.answerability)
    return HitTest(settings, found, context, notice, tuple(expected))

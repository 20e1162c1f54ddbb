"""A hit test: what applications and models get for a question. In: settings. Out: all of it."""

from __future__ import annotations

from dataclasses import dataclass

from rag import models
from rag.core.access import Scope
from rag.core.types import RetrievalSettings
from rag.services.answers.prompt import ContextBuilder
from rag.services.evaluation.golden_targets import Expected, expected_of
from rag.services.search.confidence import judge_hits
from rag.services.search.retrieve import Retrieval, retrieve
from rag.services.search.search import checked_query, search
from rag.stages.prompting.context import Context


@dataclass(frozen=True, slots=True)
class Trial:
    """What ``retrieve`` found by ``settings``, the context that a model would read, and how sure.

    ``expected`` is what a golden question of these words wants.
    """

    settings: RetrievalSettings
    retrieval: Retrieval
    context: Context
    confidence: float
    expected: tuple[Expected, ...]


def try_settings(
    *, query: str, scope: Scope, store: models.Store, settings: RetrievalSettings
) -> Trial:
    """Ask one store as the API does, but past the cache, so that every step has its time.

    Raises what ``retrieve`` raises.
    """
    query = checked_query(query=query)
    found = retrieve(
        query=query, scope=scope, stores=[store], settings=settings, search_engine=search
    )
    context = ContextBuilder(settings.context_tokens).build(
        query, found.hits, settings.context_type
    )
    questions = models.GoldenQuestion.objects.readable(scope).filter(store=store, query=query)
    ids = list(questions.values_list("pk", flat=True))
    expected = expected_of(question_ids=ids).get(ids[0], []) if ids else []
    judged = judge_hits(query=query, hits=found.hits)
    return Trial(settings, found, context, judged.confidence, tuple(expected))

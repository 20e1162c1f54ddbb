"""Reranker: the best hits scored anew by a chat model (listwise), an endpoint, or mixed.

Mixed is the model's score and the vector's, half and half. A reranker that fails leaves the order.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from rag.conf import conf
from rag.core.errors import ConfigurationError, ProviderError
from rag.core.hits import Hit
from rag.core.ports import ChatRequest, Reranker
from rag.core.request_context import use_account
from rag.core.types import Message, RetrievalSettings
from rag.providers.postgres.db.connections import release_db
from rag.providers.rerank_http import HttpReranker
from rag.services.usage import MeteredReranker
from rag.services.wiring import registry as wiring
from rag.services.wiring.registry import can_write
from rag.stages.ranking.rerank_prompt import MAX_CHARACTERS, MAX_TEXTS, ranking_prompt, read_ranking

TIMEOUT_S = 15.0
MODEL_WEIGHT = 0.5


def rerank_hits(
    *, query: str, hits: Sequence[Hit], method: str, model: str = "", timeout_s: float = TIMEOUT_S
) -> tuple[Hit, ...]:
    """Return all hits, the first 20 in the order of ``method``: llm, endpoint or mixed.

    ``model`` is the chat model of llm, and of mixed where no endpoint is set up; empty takes the
    configured one. A hit's ``score`` becomes its relevance. Raises ConfigurationError where there
    is nobody to rank, ProviderError and ProviderTimeoutError; an answer that is no ranking is a
    ProviderError, so that the order stays.
    """
    if len(hits) < 2:
        return tuple(hits)
    release_db()
    if uses_endpoint(method=method):
        texts = [hit.text[: 4 * MAX_CHARACTERS] for hit in hits[:MAX_TEXTS]]
        scores = _endpoint().rerank(query, texts, timeout_s=timeout_s)
        return reorder_by_scores(hits=hits, scores=scores, method=method)
    chat = wiring.chat_model(model)
    request = ranking_request(query=query, hits=hits, model=model, timeout_s=timeout_s)
    with use_account(kind="rerank"):
        answer = chat.generate(request).text
    return apply_ranking_answer(answer=answer, hits=hits, method=method)


def uses_endpoint(*, method: str) -> bool:
    """Return whether the endpoint ranks and no chat model."""
    return method == "endpoint" or (method == "mixed" and bool(conf().rerank_url))


def ranking_request(
    *, query: str, hits: Sequence[Hit], model: str = "", timeout_s: float = TIMEOUT_S
) -> ChatRequest:
    """Return what a chat model is asked to rank; ConfigurationError for one that only quotes."""
    chat = wiring.chat_model(model)
    if not can_write(model_id=chat.id):
        raise ConfigurationError(
            "The model {model} only quotes and cannot rank.",
            hint="Set RAG_CHAT_MODEL to a language model, or rank by an endpoint.",
            model=chat.id,
        )
    messages = ranking_prompt(query, [hit.text for hit in hits[:MAX_TEXTS]])
    return ChatRequest(
        [Message(role, text) for role, text in messages],
        question=query,
        temperature=0.0,
        max_tokens=1024,
        timeout_s=timeout_s,
    )


def apply_ranking_answer(*, answer: str, hits: Sequence[Hit], method: str) -> tuple[Hit, ...]:
    """Return the hits as a chat model's answer ranks them; ProviderError when it does not."""
    scores = read_ranking(answer, len(hits[:MAX_TEXTS]))
    if scores is None:
        raise ProviderError("The model's answer is no ranking of the results.")
    return reorder_by_scores(hits=hits, scores=scores, method=method)


def reorder_by_scores(
    *, hits: Sequence[Hit], scores: Sequence[float], method: str
) -> tuple[Hit, ...]:
    """Return the hits by their scores, equal ones as they were; those without a score follow."""
    values = list(scores)
    if method == "mixed":
        vectors = [hit.vector.score or 0.0 for hit in hits[: len(values)]]
        low, high = min(vectors), max(vectors)
        width = (high - low) or 1.0
        values = [
            MODEL_WEIGHT * score + (1 - MODEL_WEIGHT) * (vector - low) / width
            for score, vector in zip(values, vectors, strict=True)
        ]
    order = sorted(range(len(values)), key=lambda number: -values[number])
    best = [replace(hits[number], score=round(values[number], 6)) for number in order]
    found = [*best, *hits[len(values) :]]
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(found, start=1))


def _endpoint() -> Reranker:
    settings = conf()
    return _made(settings.rerank_url, settings.rerank_key, settings.rerank_model)


@lru_cache(maxsize=4)
def _made(url: str, key: str, model: str) -> Reranker:
    return MeteredReranker(HttpReranker(url, key, model))


FAILED = "failed"
log = logging.getLogger(__name__)


def rerank_pool_size(*, top_k: int, settings: RetrievalSettings) -> int:
    """Return how many hits are wanted of the index, so that ``top_k`` can be chosen of them."""
    return top_k if settings.rerank == "none" else max(top_k, settings.rerank_top_k)


def rerank_by_settings(
    *, query: str, hits: Sequence[Hit], settings: RetrievalSettings
) -> tuple[list[Hit], str]:
    """Return the hits, the first ``rerank_top_k`` of them ranked again, and by whom.

    Whoever fails or answers with no ranking leaves the order as it is: ``failed``. Raises
    ConfigurationError where there is nobody to rank.
    """
    if settings.rerank == "none":
        return list(hits), ""
    best, rest = hits[: settings.rerank_top_k], hits[settings.rerank_top_k :]
    try:
        ranked = rerank_hits(query=query, hits=best, method=settings.rerank)
    except ProviderError as error:
        log.warning("Hits stay as found, ranking again (%s) failed: %s", settings.rerank, error)
        return list(hits), FAILED
    return [*ranked, *rest], settings.rerank

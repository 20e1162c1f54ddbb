"""Rerankers that ship: a chat model that scores a list, and an HTTP endpoint.

The first stands here and not among the providers, since it takes its chat model from the registry;
its prompt is ``rag.stages.ranking.rerank_prompt``, the endpoint's client ``providers.rerank_http``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext_lazy as _

from rag.conf import conf
from rag.core.errors import ConfigurationError, ProviderError
from rag.core.options import option
from rag.core.plugins import register
from rag.core.ports import ChatRequest
from rag.core.request_context import use_account
from rag.core.types import Message
from rag.providers.rerank_http import HttpReranker
from rag.services.wiring import registry as wiring
from rag.stages.ranking.rerank_prompt import SCHEMA, ranking_prompt, read_ranking


@register("reranker")
class LLMReranker:
    """A chat model that scores the texts in one answer."""

    name, label = "llm", _("chat model")

    @dataclass(frozen=True)
    class Options:
        model: str = option("", help="The chat model, provider:model; empty is the configured one.")

    def __init__(self, options: Options) -> None:
        self._model = options.model

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Return 0 to 1 for each text; ProviderError where the answer is no ranking."""
        request = listwise_request(query=query, texts=texts, model=self._model, timeout_s=timeout_s)
        with use_account(kind="rerank"):
            answer = wiring.chat_model(self._model).generate(request).text
        return listwise_scores(answer=answer, n_texts=len(texts))


@register("reranker")
class EndpointReranker:
    """A service behind ``/rerank``, as Jina, Cohere, vLLM and TEI speak it."""

    name, label, is_remote = "endpoint", _("rerank service"), True

    @dataclass(frozen=True)
    class Options:
        url: str = option("", help="Its base or full address.", setting="rerank_url")
        model: str = option("", help="The model it is asked for.", setting="rerank_model")

    def __init__(self, options: Options) -> None:
        self._made = HttpReranker(options.url, conf().rerank_key, options.model)
        self.id = self._made.id

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Return 0 to 1 for each text, in their order; raise ProviderError."""
        return self._made.rerank(query, texts, timeout_s=timeout_s)


def listwise_request(
    *, query: str, texts: Sequence[str], model: str, timeout_s: float
) -> ChatRequest:
    """Return what a chat model is asked to rank; ConfigurationError for one that only quotes."""
    chat = wiring.chat_model(model)
    if not wiring.can_write(model_id=chat.id):
        raise ConfigurationError(
            "The model {model} only quotes and cannot rank.",
            hint="Set RAG_CHAT_MODEL to a language model, or rank by an endpoint.",
            model=chat.id,
        )
    return ChatRequest(
        [Message(role, text) for role, text in ranking_prompt(query, texts)],
        question=query,
        temperature=0.0,
        max_tokens=1024,
        timeout_s=timeout_s,
        schema=SCHEMA,
    )


def listwise_scores(*, answer: str, n_texts: int) -> list[float]:
    """Return the scores in a chat model's answer; ProviderError when it is no ranking."""
    scores = read_ranking(answer, n_texts)
    if scores is None:
        raise ProviderError("The model's answer is no ranking of the results.")
    return scores

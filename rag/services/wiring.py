"""Names to providers: the only place that knows which class stands behind a port.

Everything here is made once per process and when first needed.
"""

from __future__ import annotations

from functools import lru_cache

from rag import models
from rag.conf import conf
from rag.core.errors import ConfigurationError, InvalidInputError, UnknownNameError
from rag.core.ports import ChatModel, Embedder, Parser, SearchIndex
from rag.core.registry import Registry
from rag.providers.isolated_parser import IsolatedParser
from rag.services.usage_models import MeteredChat, MeteredEmbedder

_EMBEDDERS: Registry[Embedder] = Registry(
    "embedding provider",
    {
        "e5": "rag.services.embedders.e5",
        "use": "rag.services.embedders.use",
        "openai_compatible": "rag.services.embedders.openai_compatible",
        "gemini": "rag.services.embedders.gemini",
        "sentence_transformers": "rag.services.embedders.sentence_transformers",
    },
)
_CHAT_MODELS: Registry[ChatModel] = Registry(
    "chat provider",
    {
        "extractive": "rag.services.chat_models.extractive",
        "openai_compatible": "rag.services.chat_models.openai_compatible",
        "gemini": "rag.services.chat_models.gemini",
        "scripted": "rag.services.scripted_models.scripted",
    },
)
_INDEXES: Registry[SearchIndex] = Registry(
    "search provider",
    {
        "postgres": "rag.services.search_providers.postgres",
        "milvus": "rag.services.search_providers.milvus",
    },
)
# Those that ask a service, which bills.
BILLED_EMBEDDERS = frozenset({"openai_compatible", "gemini"})


def _split_name(name: str) -> tuple[str, str]:
    """Return provider and model of ``provider:model``."""
    provider, colon, model = name.partition(":")
    if not colon or not provider or not model:
        raise InvalidInputError(
            "“{name}” is no model name.", hint="Write provider:model, such as {example}.",
            name=name, example="e5:multilingual-e5-small",
        )  # fmt: skip
    return provider, model


def embedder(name: str = "") -> Embedder:
    """Return the embedder ``provider:model``; empty takes the configured one."""
    return _embedder(name or conf().embedding_model)


@lru_cache(maxsize=8)
def _embedder(name: str) -> Embedder:
    provider, model = _split_name(name)
    made: Embedder = _EMBEDDERS.get(provider)(model)
    return MeteredEmbedder(made) if provider in BILLED_EMBEDDERS else made


@lru_cache(maxsize=64)
def embedder_of(space_id: int) -> Embedder:
    """Return the embedder of a space; raise when it no longer makes the space's vectors."""
    space = models.EmbeddingSpace.objects.get(pk=space_id)
    found = _embedder(space.model)
    if (found.dim, found.version) != (space.dim, space.version):
        raise ConfigurationError(
            "The model {model} now makes other vectors ({now}) than the store holds ({then}).",
            hint="Restore the setting, or move the store to a new space.",
            model=space.model, now=f"{found.dim}, {found.version}",
            then=f"{space.dim}, {space.version}",
        )  # fmt: skip
    return found


def chat_model(name: str = "") -> ChatModel:
    """Return the chat model ``provider:model``; empty takes the configured one."""
    return _chat_model(name or conf().chat_model)


@lru_cache(maxsize=64)
def _chat_model(name: str) -> ChatModel:
    provider, model = _split_name(name)
    endpoints = conf().chat_endpoints
    if provider in endpoints:
        # That module needs this one.
        from rag.services import chat_models

        return MeteredChat(chat_models.named_endpoint(provider, model))
    if provider not in list(_CHAT_MODELS):
        raise UnknownNameError("chat provider", provider, [*_CHAT_MODELS, *endpoints])
    made: ChatModel = _CHAT_MODELS.get(provider)(model)
    return MeteredChat(made)


@lru_cache(maxsize=1)
def parser() -> Parser:
    """Return what reads files."""
    return IsolatedParser()


@lru_cache(maxsize=1)
def index() -> SearchIndex:
    """Return what finds chunks."""
    made: SearchIndex = _INDEXES.get(conf().search_provider)()
    return made

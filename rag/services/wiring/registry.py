"""Provider registry: the one map from model names to provider classes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.errors import ConfigurationError, InvalidInputError, RAGError, UnknownNameError
from rag.core.ports import ChatModel, Embedder, Parser, SearchIndex
from rag.core.registry import Registry
from rag.providers.extractive import ExtractiveChatModel
from rag.providers.milvus.index import MilvusIndex
from rag.providers.milvus.server import TOKEN_SETTING, URI_SETTING, MilvusServer
from rag.providers.postgres.search.index import PostgresIndex
from rag.providers.sandbox.parser import IsolatedParser
from rag.providers.scripted import Script, ScriptedChatModel
from rag.services.usage import MeteredChat, MeteredEmbedder


def can_write(*, model_id: str) -> bool:
    """Return whether a chat model writes text of its own: the offline default only quotes."""
    return not model_id.startswith("extractive:")


_EMBEDDERS: Registry[Embedder] = Registry(
    "embedding provider",
    {
        "e5": "rag.services.wiring.registry.e5",
        "use": "rag.services.wiring.registry.use",
        "openai_compatible": "rag.services.wiring.registry.openai_compatible_embedder",
        "gemini": "rag.services.wiring.registry.gemini_embedder",
        "sentence_transformers": "rag.services.wiring.registry.sentence_transformers",
    },
)
_CHAT_MODELS: Registry[ChatModel] = Registry(
    "chat provider",
    {
        "extractive": "rag.services.wiring.registry.extractive",
        "openai_compatible": "rag.services.wiring.registry.openai_compatible",
        "gemini": "rag.services.wiring.registry.gemini",
        "scripted": "rag.services.wiring.registry.scripted",
    },
)
_INDEXES: Registry[SearchIndex] = Registry(
    "search provider",
    {
        "postgres": "rag.services.wiring.registry.postgres",
        "milvus": "rag.services.wiring.registry.milvus",
    },
)
# Those that ask a service, which bills.
BILLED_EMBEDDERS = frozenset({"openai_compatible", "gemini"})


def _split_name(name: str) -> tuple[str, str]:
    """Return provider and model of ``provider:model``."""
    provider, colon, model = name.partition(":")
    if not colon or not provider or not model:
        raise InvalidInputError(
            "“{name}” is no model name.",
            hint="Write provider:model, such as {example}.",
            name=name,
            example="e5:multilingual-e5-small",
        )
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
            model=space.model,
            now=f"{found.dim}, {found.version}",
            then=f"{space.dim}, {space.version}",
        )
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
        pass

        return MeteredChat(named_endpoint(provider, model))
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


def extractive(model: str) -> ChatModel:
    """Return the offline default, which quotes whole sentences."""
    if model != "sentences":
        raise UnknownNameError("extractive model", model, ["sentences"])
    return ExtractiveChatModel(score=_similarities)


def openai_compatible(model: str) -> ChatModel:
    """Return a model behind any ``/chat/completions`` endpoint."""
    # The SDK is heavy and belongs to this provider alone.
    from rag.providers.openai_compatible.chat import OpenAICompatibleChatModel

    settings = conf()
    return OpenAICompatibleChatModel(model, settings.openai_base_url, settings.openai_api_key)


def named_endpoint(provider: str, model: str) -> ChatModel:
    """Return a model behind one of the endpoints that the installation has given a name."""
    # The SDK is heavy and belongs to this provider alone.
    from rag.providers.openai_compatible.chat import OpenAICompatibleChatModel

    endpoint = conf().chat_endpoints[provider]
    made = OpenAICompatibleChatModel(
        model, endpoint.get("base_url", ""), endpoint.get("api_key", "")
    )
    made.id = f"{provider}:{model}"
    return made


def gemini(model: str) -> ChatModel:
    """Return a chat model of Gemini."""
    # The SDK is heavy and belongs to this provider alone.
    from rag.providers.gemini.chat import GeminiChatModel
    from rag.providers.gemini.client import GeminiEndpoint

    settings = conf()
    endpoint = GeminiEndpoint(
        settings.gemini_api_key, settings.gemini_base_url, settings.gemini_api_version
    )
    return GeminiChatModel(model, endpoint)


def _similarities(question: str, sentences: list[str]) -> list[float]:
    """Return how near each sentence is to the question by the configured embedder."""
    model = embedder()
    scores: list[float] = (model.embed_passages(sentences) @ model.embed_query(question)).tolist()
    return scores


def e5(model: str) -> Embedder:
    """Return the offline default."""
    from rag.providers.e5.embedder import E5Embedder  # numpy and ONNX Runtime: only when needed

    if model != "multilingual-e5-small":
        raise UnknownNameError("e5 model", model, ["multilingual-e5-small"])
    settings = conf()
    return E5Embedder(
        precision=settings.e5_precision,
        threads=settings.embedding_threads or None,
        cache_dir=settings.models_dir,
    )


def use(model: str) -> Embedder:
    """Return the fast, weaker offline model."""
    from rag.providers.use import UseEmbedder  # numpy and the model's tables: only when needed

    if model != "multilingual-v3":
        raise UnknownNameError("use model", model, ["multilingual-v3"])
    return UseEmbedder(threads=conf().embedding_threads or None)


def openai_compatible_embedder(model: str) -> Embedder:
    """Return a model behind any ``/embeddings`` endpoint."""
    # The SDK is heavy and belongs to this provider alone.
    from rag.providers.openai_compatible.embedder import EmbedderOptions, OpenAICompatibleEmbedder

    settings = conf()
    return OpenAICompatibleEmbedder(
        model,
        settings.openai_base_url,
        settings.openai_api_key,
        settings.embedding_dim,
        options=EmbedderOptions(
            dimensions=settings.embedding_dim or None,
            query_prefix=settings.query_prefix,
            passage_prefix=settings.passage_prefix,
            timeout_s=settings.timeout_s,
        ),
    )


def gemini_embedder(model: str) -> Embedder:
    """Return an embedding model of Gemini."""
    # The SDK is heavy and belongs to this provider alone.
    from rag.providers.gemini.client import GeminiEndpoint
    from rag.providers.gemini.embedder import FULL_DIM, GeminiEmbedder, GeminiEmbedderOptions

    settings = conf()
    endpoint = GeminiEndpoint(
        settings.gemini_api_key, settings.gemini_base_url, settings.gemini_api_version
    )
    options = GeminiEmbedderOptions(
        dim=settings.embedding_dim or FULL_DIM, timeout_s=settings.timeout_s
    )
    return GeminiEmbedder(model, endpoint, options=options)


def sentence_transformers(model: str) -> Embedder:
    """Return a local model of the extra, such as BGE or Qwen."""
    # The extra brings PyTorch; it is imported only where it is asked for.
    from rag.providers.sentence_transformers import SentenceTransformersEmbedder

    return SentenceTransformersEmbedder(model)


def embedding_models(*, scope: Scope) -> list[str]:
    """Return the configured model first, then those of the stores that ``scope`` may read."""
    stores = models.Store.objects.readable(scope).exclude(space=None)
    used = stores.order_by().values_list("space__model", flat=True).distinct()
    return list(dict.fromkeys([conf().embedding_model, *sorted(used)]))


def scripted(model: str) -> ChatModel:
    """Return the model whose name is the path of a YAML file."""
    return ScriptedChatModel(Script.read(Path(model)), model)


def model_of_script(*, script: Mapping[str, Any], name: str) -> ChatModel:
    """Return the model of a script at hand; raise InvalidInputError for a wrong one."""
    return ScriptedChatModel(Script.from_dict(script, name=name), name)


def postgres() -> SearchIndex:
    """Return the search of Postgres itself."""
    return PostgresIndex()


def milvus() -> SearchIndex:
    """Return the search by what the configured Milvus proposes."""
    return MilvusIndex(milvus_server())


def is_milvus() -> bool:
    """Return whether Milvus proposes chunks."""
    return conf().search_provider == "milvus"


def milvus_server() -> MilvusServer:
    """Return the configured Milvus; raise ConfigurationError where none is."""
    if not conf().milvus_uri:
        raise ConfigurationError(
            "No Milvus is set up.",
            hint="Set {uri} and, if it wants one, {token}.",
            uri=URI_SETTING,
            token=TOKEN_SETTING,
        )
    return _server(conf().milvus_uri, conf().milvus_token)


@lru_cache(maxsize=4)
def _server(uri: str, token: str) -> MilvusServer:
    return MilvusServer(uri, token)


logger = logging.getLogger(__name__)


def warm_up() -> None:
    """Embed one word with the configured model; a model that fails is told when it is used."""
    try:
        embedder().embed_query("warm")
    except RAGError as error:
        logger.warning("The embedding model is not ready: %s", error)

"""Provider registry: the one map from model names to providers, metered on usage accounts."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.errors import ConfigurationError, InvalidInputError, RAGError, UnknownNameError
from rag.core.plugins import PLUGINS
from rag.core.ports import ChatModel, Embedder, Parser, Reranker, SearchIndex
from rag.core.request_context import current_account
from rag.core.splitters import Splitter
from rag.providers.milvus.index import MilvusIndex
from rag.providers.milvus.server import TOKEN_SETTING, URI_SETTING, MilvusServer
from rag.providers.postgres.search.index import PostgresIndex
from rag.providers.quoting import QuotingChatModel
from rag.providers.sandbox.parser import SandboxedParser
from rag.providers.scripted import Script, ScriptedChatModel
from rag.providers.simplifying import SimplifyingEmbedder
from rag.services.plugins import configured_options, configured_plugin
from rag.services.usage import MeteredChat, MeteredEmbedder, MeteredReranker


def can_write(*, model_id: str) -> bool:
    """Return whether a chat model writes text of its own: the offline default only quotes."""
    provider = model_id.partition(":")[0]
    is_filed = provider in PLUGINS.names("chat")
    return not (is_filed and getattr(PLUGINS.get("chat", provider), "only_quotes", False))


def is_local_model(*, model_id: str) -> bool:
    """Return whether an embedding model asks no service, so that a connection may be kept."""
    provider = model_id.partition(":")[0]
    if provider not in PLUGINS.names("embedding"):
        return False
    return not getattr(PLUGINS.get("embedding", provider), "is_remote", False)


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
    return _metered(name, SimplifyingEmbedder(_model(name)))


@lru_cache(maxsize=8)
def _model(name: str) -> Embedder:
    provider, model = _split_name(name)
    if provider not in (known := list(PLUGINS.names("embedding"))):
        raise UnknownNameError("embedding provider", provider, known)
    found = configured_plugin(kind="embedding", name=provider)
    made: Embedder = _loaded("embedding provider", found, model)
    return made


def _metered(name: str, made: Embedder) -> Embedder:
    return made if is_local_model(model_id=name) else MeteredEmbedder(made)


def _loaded(kind: str, provider: Any, model: str) -> Any:
    try:
        return provider.load(model)
    except ImportError as error:
        raise ConfigurationError(
            "The {kind} “{name}” cannot be loaded: {reason}.",
            hint="Check that its package is installed.",
            kind=kind,
            name=provider.name,
            reason=error,
        ) from error


@lru_cache(maxsize=64)
def embedder_of(space_id: int) -> Embedder:
    """Return the embedder of a space; raise when it no longer makes the space's vectors.

    A space of older versions holds texts as they were written, and is asked so until it is left.
    """
    space = models.EmbeddingSpace.objects.get(pk=space_id)
    found, as_written = _embedder(space.model), _model(space.model)
    if (found.dim, found.version) == (space.dim, space.version):
        return found
    if (as_written.dim, as_written.version) == (space.dim, space.version):
        return _metered(space.model, as_written)
    raise ConfigurationError(
        "The model {model} now makes other vectors ({now}) than the store holds ({then}).",
        hint="Restore the setting, or move the store to a new space.",
        model=space.model,
        now=f"{found.dim}, {found.version}",
        then=f"{space.dim}, {space.version}",
    )


def chat_model(name: str = "") -> ChatModel:
    """Return the chat model ``provider:model``; empty takes the configured one."""
    return _chat_model(name or conf().chat_model)


@lru_cache(maxsize=64)
def _chat_model(name: str) -> ChatModel:
    provider, model = _split_name(name)
    endpoints = conf().chat_endpoints
    if provider in endpoints:
        # The SDK is heavy and belongs to these models alone.
        from rag.providers.openai_compatible.chat import ChatOptions, OpenAICompatibleChatModel

        given, options = endpoints[provider], ChatOptions(setting=f"RAG_CHAT_ENDPOINTS[{provider}]")
        address, key = given.get("base_url", ""), given.get("api_key", "")
        made = OpenAICompatibleChatModel(model, address, key, options=options)
        made.id = name
        return MeteredChat(_quoting(made))
    if provider not in (known := list(PLUGINS.names("chat"))):
        raise UnknownNameError("chat provider", provider, [*known, *endpoints])
    found = configured_plugin(kind="chat", name=provider)
    return MeteredChat(_quoting(_loaded("chat provider", found, model)))


def _quoting(made: ChatModel) -> ChatModel:
    return QuotingChatModel(made) if conf().quote_schema and can_write(model_id=made.id) else made


@lru_cache(maxsize=1)
def parser(*, with_hidden: bool = False) -> Parser:
    """Return what reads files; ``with_hidden`` reads the hidden cells of spreadsheets too."""
    chosen = {key: _parser_plugin(key, name) for key, name in conf().parsers.items()}
    if with_hidden:
        for kind, name in (("xlsx", "sheets"), ("xls", "xls"), ("ods", "ods")):
            plugin = _parser_plugin(kind, name) | {"options": {"with_hidden": True}}
            chosen.setdefault(kind, plugin)
    return SandboxedParser(parsers=chosen)


def _parser_plugin(key: str, name: str) -> dict[str, Any]:
    plugin = PLUGINS.get("parser", name)
    if key not in plugin.kinds:
        raise ConfigurationError(
            "The parser “{name}” does not read {key}, as RAG_PARSERS says.",
            hint="It reads: {kinds}.",
            name=name,
            key=key,
            kinds=", ".join(plugin.kinds),
        )
    options = configured_options(kind="parser", name=name)
    return {"module": plugin.__module__, "class": plugin.__qualname__, "options": options}


def splitter(name: str = "") -> Splitter:
    """Return what cuts documents into chunks; empty is what RAG_SPLITTER chooses."""
    found: Splitter = configured_plugin(kind="splitter", name=name or conf().splitter)
    return found


def splitter_id(name: str = "") -> str:
    """Return what changes whenever the splitter or its options change."""
    options = configured_options(kind="splitter", name=name or conf().splitter)
    return f"{name or conf().splitter} {json.dumps(options, sort_keys=True)}"


@lru_cache(maxsize=1)
def index() -> SearchIndex:
    """Return what finds chunks."""
    makers: dict[str, Callable[[], SearchIndex]] = {
        "postgres": PostgresIndex,
        "milvus": lambda: MilvusIndex(milvus_server()),
    }
    provider = conf().search_provider
    if provider not in makers:
        raise UnknownNameError("search provider", provider, makers)
    return makers[provider]()


def reranker(name: str, options: Mapping[str, Any] | None = None) -> Reranker:
    """Return the reranker of a name; one that asks a service is metered."""
    found = configured_plugin(kind="reranker", name=name, options=options)
    return MeteredReranker(found) if getattr(found, "is_remote", False) else found


def embedding_models(*, scope: Scope) -> list[str]:
    """Return the configured model first, then those of the stores that ``scope`` may read."""
    stores = models.Store.objects.readable(scope).exclude(space=None)
    used = stores.order_by().values_list("space__model", flat=True).distinct()
    return list(dict.fromkeys([conf().embedding_model, *sorted(used)]))


def model_of_script(*, script: Mapping[str, Any], name: str) -> ChatModel:
    """Return the model of a script at hand; raise InvalidInputError for a wrong one."""
    return ScriptedChatModel(Script.from_dict(script, name=name), name)


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


def chat_for(
    *, scope: Scope, kind: str, model: str = "", stores: Sequence[Any] = (), agent: str = ""
) -> ChatModel:
    """Return ``provider:model`` (empty: the configured one), paid for by a scope's user or key.

    ``kind`` is of ``UsageRecord.Kind``. A question to several stores is on the first one's account.
    """
    found = chat_model(model)
    payer = replace(current_account(), kind=kind)
    if stores:
        payer = replace(payer, store_id=stores[0].pk)
    if agent:
        payer = replace(payer, agent=agent)
    if scope.user_id is not None or scope.key_id is not None:
        payer = payer.of(scope)
    return MeteredChat(found.model if isinstance(found, MeteredChat) else found, payer)


def embedder_for(*, store: models.Store) -> Embedder:
    """Return the embedder of a store's live space; what it costs is on the store's account.

    It may be used on threads that know nothing of the caller.
    """
    found = embedder_of(store.live_space_id)
    if not isinstance(found, MeteredEmbedder):
        return found
    return MeteredEmbedder(found.model, replace(current_account(), store_id=store.pk))

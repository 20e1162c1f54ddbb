"""Metered models: chat, embedding and rerank ports on a usage account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rag import models
from rag.core.access import Scope
from rag.core.ports import ChatModel, Embedder
from rag.core.request_context import current_account
from rag.services.usage import MeteredChat, MeteredEmbedder
from rag.services.wiring import registry as wiring


def chat_for(
    *, scope: Scope, kind: str, model: str = "", stores: Sequence[Any] = (), agent: str = ""
) -> ChatModel:
    """Return ``provider:model`` (empty: the configured one), paid for by a scope's user or key.

    ``kind`` is of ``UsageRecord.Kind``. A question to several stores is on the first one's account.
    """
    found = wiring.chat_model(model)
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
    found = wiring.embedder_of(store.live_space_id)
    if not isinstance(found, MeteredEmbedder):
        return found
    return MeteredEmbedder(found.model, replace(current_account(), store_id=store.pk))

"""Models by OpenAI's names: agents and embedding models, and embeddings of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents import models
from agents.chat.agents.agent import find_agent
from rag.core.access import Scope
from rag.core.errors import ConflictError, InvalidInputError, NotFoundError
from rag.core.request_context import use_account
from rag.services.threads import release_db
from rag.services.wiring import registry as wiring
from rag.services.wiring.registry import embedding_models


def list_models(*, scope: Scope) -> list[dict[str, Any]]:
    """Return the agents that ``scope`` may ask, by name, and the embedding models it may use."""
    agents = models.Agent.objects.readable(scope).filter(is_enabled=True).order_by("name")
    found = [
        _model(agent.name, "agent", int(agent.created_at.timestamp()), str(agent))
        for agent in agents
    ]
    return found + [_model(name, "embedding") for name in embedding_models(scope=scope)]


def find_model(*, name: str, scope: Scope) -> dict[str, Any]:
    """Return one model of the list; raise NotFoundError."""
    for model in list_models(scope=scope):
        if model["id"] == name:
            return model
    raise _unknown(name)


def _model(name: str, kind: str, created: int = 0, label: str = "") -> dict[str, Any]:
    # 0 is the Unix time of one of which none is known.
    known = {"object": "model", "created": created, "owned_by": "citable"}
    return {"id": name, **known, "kind": kind, "label": label}


def model_agent(*, name: str, scope: Scope) -> models.Agent:
    """Return an agent that can be asked; one that is hidden or switched off is none here."""
    try:
        return find_agent(name=name, scope=scope)
    except (NotFoundError, ConflictError) as error:
        raise _unknown(name) from error


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(
        "The model “{model}” does not exist, or you may not use it.",
        hint="GET /v1/models lists those that you may.",
        model=name[:200],
    )


MAX_TEXTS, MAX_TOKENS = 2048, 300_000


def parse_texts(*, given: Any) -> list[str]:
    """Return the texts of a request's ``input``; raise InvalidInputError for anything else."""
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list) or not listed:
        raise InvalidInputError(
            "The input is neither a text nor a list of texts.", hint="Send one.", param="input"
        )
    if any(isinstance(one, (int, list)) for one in listed):
        raise InvalidInputError(
            "Tokens cannot be embedded: each model here has its own.",
            hint="Send texts; in LangChain, check_embedding_ctx_length=False does it.",
            param="input",
        )
    if len(listed) > MAX_TEXTS:
        raise InvalidInputError(
            "There are {n} texts.",
            hint="Allowed: 1 to {limit}.",
            n=len(listed),
            limit=MAX_TEXTS,
            param="input",
        )
    for number, text in enumerate(listed):
        if not isinstance(text, str) or not text.strip():
            raise InvalidInputError(
                "Text {number} of the input is empty.",
                hint="Leave it out.",
                number=number,
                param="input",
            )
    return listed


def embed_texts(
    *,
    model: str,
    texts: Sequence[str],
    scope: Scope,
    dimensions: int | None = None,
    is_query: bool = False,
) -> tuple[Any, int]:
    """Return float32 vectors [n, dim] in the order of the texts, and how many tokens these had.

    Raises NotFoundError for a model that ``scope`` may not use, InvalidInputError for more than
    300,000 tokens and for other dimensions than the model's.
    """
    if model not in embedding_models(scope=scope):
        raise _unknown(model)
    embedder = wiring.embedder(model)
    # No connection is held while the model works.
    release_db()
    if dimensions not in (None, embedder.dim):
        raise InvalidInputError(
            "The model {model} makes vectors of {dim} numbers, no others.",
            hint="Leave it out.",
            model=model,
            dim=embedder.dim,
            param="dimensions",
        )
    n_tokens = 0
    for text in texts:
        n_tokens += embedder.tokenizer.count(text)
        if n_tokens > MAX_TOKENS:
            raise InvalidInputError(
                "The input has more than {limit} tokens.",
                hint="Send it in several requests.",
                limit=MAX_TOKENS,
                param="input",
            )
    with use_account(scope):
        if is_query:
            return [embedder.embed_query(text) for text in texts], n_tokens
        return embedder.embed_passages(texts), n_tokens

"""Retrieve and ask by django-ninja: a question and stores to hits, context, citations.

``/search``, ``/store`` and ``/upload`` below the same prefix belong to the file search API.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from django.http import HttpRequest
from ninja import Router

from rag import models
from rag.api.http.authentication import require_caller, require_right
from rag.api.http.idempotency import done_once, repeatable
from rag.api.http.schemas import PROBLEMS
from rag.api.retrieval.schemas import Answered, AskBody, RetrieveBody, Retrieved
from rag.core.access import Scope
from rag.core.types import RetrievalSettings
from rag.services.answers import ContextBuilder, PromptEnhancer, ask, check_model
from rag.services.search import retrieve, state_digest
from rag.services.stores import find_stores

router = Router(tags=["rag"])


@router.post("/retrieve", response={200: Retrieved, **PROBLEMS}, summary="Find what a prompt needs")
def retrieve_context(request: HttpRequest, body: RetrieveBody) -> dict[str, Any]:
    """Return hits with their explanation, laid out as a context, and a prompt with that context.

    Without `settings` the first store's own are used; with them, what is given replaces these.
    `context_type` unset takes the settings' own. `enhancement` unset returns no prompt.
    """
    scope = require_caller(request, "read").scope
    stores = find_stores(names=body.stores, scope=scope)
    settings = _settings(stores, body).in_mode(body.retrieval_mode)
    found = retrieve(query=body.query, scope=scope, stores=stores, settings=settings)
    builder = ContextBuilder(settings.context_tokens)
    context_type = body.context_type or settings.context_type
    context = builder.build(body.query, found.hits, context_type)
    prompt = None
    if body.enhancement:
        prompt = PromptEnhancer().enhance_prompt(
            body.prompt or body.query, context.text, body.enhancement
        )
    metadata = {
        **found.metadata,
        "context_type": context_type,
        "is_cut": context.is_cut,
        "n_sources": len(context.passages),
    }
    return {
        "hits": [hit.as_dict() for hit in found.hits],
        "context": context.text,
        "enhanced_prompt": prompt,
        "metadata": metadata,
    }


@router.post(
    "/ask", response={200: Answered, **PROBLEMS}, summary="Answer a question with checked citations"
)
def answer_question(request: HttpRequest, body: AskBody) -> dict[str, Any]:
    """Return an answer whose `[n]` marks are its citations, each looked up in its source.

    `grounding` has the verdict of each statement: cited, attributed, contradicted or unsupported;
    `outcome` follows from it: answered, partial, ungrounded or not_found.
    `verdict` of a citation is verified, abridged, altered, wrong_document or unknown. `notice` is
    for the reader, such as that no chat model is configured, or that no document mentions a code of
    the question. Where nothing found can answer it, no model is asked, and `model` is empty.
    With `Idempotency-Key` the same question is answered once; sent again it gets the same answer.
    """
    caller = require_caller(request, "read")
    if body.model:
        # Who may add an agent chooses its model.
        require_right(caller, "read", "agents.add_agent")
        check_model(name=body.model)
    stores = find_stores(names=body.stores, scope=caller.scope)
    has_key = "Idempotency-Key" in request.headers
    state = state_digest(stores=stores, scope=caller.scope) if has_key else ""
    once = repeatable(request, caller, state=state)
    return done_once(once, partial(_answer, body, stores, caller.scope))


def _answer(body: AskBody, stores: Sequence[models.Store], scope: Scope) -> dict[str, Any]:
    answer = ask(
        question=body.query,
        scope=scope,
        stores=stores,
        settings=_settings(stores, body),
        model=body.model,
        enhancement=body.enhancement,
    )
    return {
        "answer": answer.text,
        "outcome": answer.outcome,
        "confidence": answer.confidence,
        "grounding": answer.groundedness.as_dict(),
        "citations": [asdict(citation) for citation in answer.citations],
        "hits": [hit.as_dict() for hit in answer.result.hits],
        "model": answer.model,
        "notice": answer.notice,
        "metadata": {
            "mode": answer.result.mode,
            "top_k": answer.result.top_k,
            "settings_hash": answer.result.settings_hash,
            "below_thresholds": answer.result.metadata.get("below_thresholds", 0),
            "answerability": answer.result.metadata.get("answerability"),
            "timings_ms": {name: round(ms, 2) for name, ms in answer.timings_ms.items()},
        },
    }


def _settings(stores: Sequence[models.Store], body: RetrieveBody | AskBody) -> RetrievalSettings:
    own = stores[0].retrieval_settings
    if body.settings is None:
        return own
    given = body.settings.model_dump(exclude_unset=True)
    return RetrievalSettings.from_dict({**own.as_dict(), **given})

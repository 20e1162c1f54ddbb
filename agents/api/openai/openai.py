"""OpenAI-compatible routes by django-ninja, below ``/v1/``."""

from __future__ import annotations

import base64
from functools import partial
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import get_language
from ninja import Router

from agents.api.openai.schemas import ChatCompletionBody, EmbeddingsBody, ignored_parameters
from agents.api.openai.stream import Completion, completion_response, completion_stream
from agents.chat.answers.control import start_answer
from agents.chat.openai.answer import OpenAIAnswer
from agents.chat.openai.completion_request import message_request
from agents.chat.openai.models import NamedModel, embed_texts, find_model, list_models, parse_texts
from rag.api.http.authentication import require_caller
from rag.services.threads import run_external

router = Router(tags=["openai"])
_EMBEDDING_TUNING = frozenset({"user", "truncate"})


@router.get("/models", summary="List agents and embedding models")
def models(request: HttpRequest) -> dict[str, Any]:
    """Return what may be named as `model`: agents for chat, embedding models for embeddings."""
    scope = require_caller(request, "read").scope
    return {"object": "list", "data": [_shown(one) for one in list_models(scope=scope)]}


@router.get("/models/{path:name}", summary="Show an agent or embedding model")
def model(request: HttpRequest, name: str) -> dict[str, Any]:
    """Return one of the list; 404 for any other."""
    return _shown(find_model(name=name, scope=require_caller(request, "read").scope))


@router.post("/chat/completions", summary="Ask an agent")
async def chat_completions(request: HttpRequest, body: ChatCompletionBody) -> Any:
    """Answer the last message, whole or, with `stream`, in chunks.

    `model` is an agent. System messages are added to the agent's own prompt; earlier turns are the
    conversation. Beside OpenAI's fields the answer has `citations` (in a stream: its last chunk)
    and `citable`: outcome, confidence, sources, notices, and the parameters that had no effect.
    `citable` in the request chooses stores and asks for footnotes.
    """
    scope = require_caller(request, "read").scope
    ignored = ignored_parameters(body.model_extra or {})
    asked, stops = body.asked(), body.stops
    started = await start_answer(order=partial(message_request, asked=asked, scope=scope))
    agent = started.order.agent
    # A stream cannot take back what it sent: answers that may be repaired wait for their end.
    is_repaired = agent.config.get("citation_failure") == "repair"
    holds = is_repaired or not (body.stream or stops)
    completion = Completion(
        message=started.answer,
        model=agent.name,
        ignored=ignored,
        answer=OpenAIAnswer(stops, body.citable.footnotes, holds),
        prompt="\n".join([asked.instructions, *(turn["content"] for turn in asked.turns)]),
        language=get_language() or settings.LANGUAGE_CODE,
    )
    if body.stream:
        has_usage = bool(body.stream_options and body.stream_options.include_usage)
        return completion_stream(completion, has_usage)
    return await completion_response(completion)


@router.post("/embeddings", summary="Embed texts")
async def embeddings(request: HttpRequest, body: EmbeddingsBody) -> dict[str, Any]:
    """Return a vector for each text, by the model that the installation's own search uses.

    `input_type` `query` embeds as a question is embedded, `passage` (the default) as a document.
    Up to 2,048 texts and 300,000 tokens.
    """
    scope = require_caller(request, "read").scope
    ignored_parameters(body.model_extra or {}, _EMBEDDING_TUNING)
    found = await run_external(
        embed_texts,
        model=body.model,
        texts=parse_texts(given=body.input),
        scope=scope,
        dimensions=body.dimensions,
        is_query=body.input_type == "query",
    )
    encode = _packed if body.encoding_format == "base64" else _listed
    return {
        "object": "list",
        "model": body.model,
        "data": [
            {"object": "embedding", "index": index, "embedding": encode(vector)}
            for index, vector in enumerate(found.vectors)
        ],
        "usage": {"prompt_tokens": found.n_tokens, "total_tokens": found.n_tokens},
    }


def _shown(one: NamedModel) -> dict[str, Any]:
    return {
        "id": one.id,
        "object": "model",
        "created": one.created,
        "owned_by": "citable",
        "kind": one.kind,
        "label": one.label,
    }


def _listed(vector: Any) -> list[float]:
    found: list[float] = vector.tolist()
    return found


def _packed(vector: Any) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")

"""OpenAI-compatible routes by django-ninja, below ``/v1/``."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Router

from agents.api.http.sse import localize_error, with_pings
from agents.api.openai.completion import (
    AnswerWishes,
    Completion,
    begin_completion,
    encode_data,
    event_stream,
    finished,
    heard_texts,
    tell_ignored,
)
from agents.api.openai.errors import openai_error
from agents.api.openai.parameters import check_parameters
from agents.api.openai.schemas import ChatCompletionBody, EmbeddingsBody
from agents.chat.openai.models import embed_texts, find_model, list_models, parse_texts
from agents.conf import agent_setting
from rag.api.http.authentication import require_caller
from rag.services.threads import run_external

router = Router(tags=["openai"])


@router.get("/models", summary="List agents and embedding models")
def models(request: HttpRequest) -> dict[str, Any]:
    """Return what may be named as `model`: agents for chat, embedding models for embeddings."""
    scope = require_caller(request, "read").scope
    return {"object": "list", "data": list_models(scope=scope)}


@router.get("/models/{path:name}", summary="Show an agent or embedding model")
def model(request: HttpRequest, name: str) -> dict[str, Any]:
    """Return one of the list; 404 for any other."""
    return find_model(name=name, scope=require_caller(request, "read").scope)


@router.post("/chat/completions", summary="Ask an agent")
async def chat_completions(
    request: HttpRequest, body: ChatCompletionBody, response: HttpResponse
) -> Any:
    """Answer the last message, whole or, with `stream`, in chunks.

    `model` is an agent. System messages are added to the agent's own prompt; earlier turns are the
    conversation. Beside OpenAI's fields the answer has `citations` (in a stream: its last chunk)
    and `citable`: outcome, confidence, sources, notices, and the parameters that had no effect,
    which the header `X-Citable-Ignored` names too. `citable` in the request chooses stores and
    asks for footnotes.
    """
    require_caller(request, "read")
    ignored = check_parameters(body.model_extra or {})
    wishes = AnswerWishes(
        stops=body.stops,
        is_stream=bool(body.stream),
        has_footnotes=body.citable.footnotes,
        ignored=ignored,
    )
    completion = await begin_completion(request, asked=body.asked(), wishes=wishes)
    if body.stream:
        has_usage = bool(body.stream_options and body.stream_options.include_usage)
        return completion_stream(completion, has_usage)
    tell_ignored(response, ignored)
    return await completion_response(completion)


@router.post("/embeddings", summary="Embed texts")
async def embeddings(
    request: HttpRequest, body: EmbeddingsBody, response: HttpResponse
) -> dict[str, Any]:
    """Return a vector for each text, by the model that the installation's own search uses.

    `input_type` `query` embeds as a question is embedded, `passage` (the default) as a document.
    Up to 2,048 texts and 300,000 tokens.
    """
    scope = require_caller(request, "read").scope
    tell_ignored(response, check_parameters(body.model_extra or {}))
    vectors, n_tokens = await run_external(
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
            for index, vector in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": n_tokens, "total_tokens": n_tokens},
    }


def _listed(vector: Any) -> list[float]:
    found: list[float] = vector.tolist()
    return found


def _packed(vector: Any) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")


def _stub(completion: Completion) -> dict[str, Any]:
    """Return what whole answers and chunks have in common."""
    key = f"chatcmpl-{completion.message.key.hex}"
    return {"id": key, "created": completion.created, "model": completion.model}


async def completion_response(completion: Completion) -> dict[str, Any]:
    """Return the completion at its end; raise the RAGError that it failed with."""
    answer = await finished(completion)
    said = {"role": "assistant", "content": answer.shown, "refusal": None}
    choice = {
        "index": 0,
        "message": said,
        "logprobs": None,
        "finish_reason": answer.finish_reason,
    }
    return {
        **_stub(completion),
        "object": "chat.completion",
        "choices": [choice],
        "usage": answer.usage(completion.prompt),
        **completion.extras,
    }


def completion_stream(completion: Completion, has_usage: bool) -> StreamingHttpResponse:
    """Return the completion as chunks while it is written; ``has_usage`` adds the tokens."""
    return event_stream(_encoded(completion, has_usage), completion.ignored)


async def _encoded(completion: Completion, has_usage: bool) -> AsyncIterator[bytes]:
    chunks = with_pings(_chunks(completion, has_usage), float(agent_setting("PING_S")))
    async with aclosing(chunks):
        async for chunk in chunks:
            # A comment: clients wait on and see nothing.
            yield b": ping\n\n" if chunk is None else encode_data(chunk)
    if completion.answer.error is None:
        yield b"data: [DONE]\n\n"


async def _chunks(
    completion: Completion, has_usage: bool
) -> AsyncGenerator[Mapping[str, Any], None]:
    answer, usage = completion.answer, {"usage": None} if has_usage else {}
    stub = {**_stub(completion), "object": "chat.completion.chunk"}

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {**stub, "choices": [choice], **usage}

    yield chunk({"role": "assistant", "content": ""})
    async with aclosing(heard_texts(completion)) as texts:
        async for text in texts:
            yield chunk({"content": text})
    if answer.error is not None:
        told = localize_error(answer.error, completion.language)
        yield openai_error(500, {"code": told.get("code", "error"), **told["error"]})[1]
        return
    yield {**chunk({}, answer.finish_reason), **completion.extras}
    if has_usage:
        yield {**stub, "choices": [], "usage": answer.usage(completion.prompt)}

"""OpenAI-compatible routes by django-ninja, below ``/v1/``."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.translation import get_language
from ninja import Router

from agents import models as rows
from agents.api.http.sse import localize_error, with_pings
from agents.api.openai.errors import openai_error
from agents.api.openai.schemas import ChatCompletionBody, EmbeddingsBody, check_parameters
from agents.chat.answers.control import start_answer, subscribe
from agents.chat.answers.worker import AnswerWorker
from agents.chat.openai.answer import OpenAIAnswer
from agents.chat.openai.completion_request import message_request
from agents.chat.openai.models import embed_texts, find_model, list_models, parse_texts
from agents.runtime.event_errors import error_from_event
from rag.api.http.authentication import require_caller
from rag.services.threads import run_external

router = Router(tags=["openai"])
_EMBEDDING_TUNING = frozenset({"user", "truncate"})


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
async def chat_completions(request: HttpRequest, body: ChatCompletionBody) -> Any:
    """Answer the last message, whole or, with `stream`, in chunks.

    `model` is an agent. System messages are added to the agent's own prompt; earlier turns are the
    conversation. Beside OpenAI's fields the answer has `citations` (in a stream: its last chunk)
    and `citable`: outcome, confidence, sources, notices, and the parameters that had no effect.
    `citable` in the request chooses stores and asks for footnotes.
    """
    scope = require_caller(request, "read").scope
    ignored = check_parameters(body.model_extra or {})
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
    check_parameters(body.model_extra or {}, _EMBEDDING_TUNING)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One completion under way: its row, how it is shown, and what goes along with it."""

    message: rows.Message
    model: str
    answer: OpenAIAnswer
    prompt: str
    ignored: Sequence[str]
    language: str

    @property
    def stub(self) -> dict[str, Any]:
        """Return what whole answers and chunks have in common."""
        created = int(self.message.created_at.timestamp())
        return {"id": f"chatcmpl-{self.message.key.hex}", "created": created, "model": self.model}

    @property
    def extras(self) -> dict[str, Any]:
        """Return the fields that OpenAI's own answers lack."""
        about = self.answer.about(self.ignored)
        about["notices"] = [localize_error(notice, self.language) for notice in about["notices"]]
        return {"citations": self.answer.citations, "citable": about}


async def completion_response(completion: Completion) -> dict[str, Any]:
    """Return the completion at its end; raise the RAGError that it failed with."""
    answer = completion.answer
    async with aclosing(_heard(completion)) as texts:
        async for _ in texts:
            pass
    if answer.error is not None:
        raise error_from_event(answer.error)
    said = {"role": "assistant", "content": answer.shown, "refusal": None}
    choice = {
        "index": 0,
        "message": said,
        "logprobs": None,
        "finish_reason": answer.finish_reason,
    }
    return {
        **completion.stub,
        "object": "chat.completion",
        "choices": [choice],
        "usage": answer.usage(completion.prompt),
        **completion.extras,
    }


def completion_stream(completion: Completion, has_usage: bool) -> StreamingHttpResponse:
    """Return the completion as chunks while it is written; ``has_usage`` adds the tokens."""
    body = _encoded(completion, has_usage)
    response = StreamingHttpResponse(body, content_type="text/event-stream; charset=utf-8")
    response["Cache-Control"] = "no-cache"
    response["X-Accel-Buffering"] = "no"
    return response


async def _encoded(completion: Completion, has_usage: bool) -> AsyncIterator[bytes]:
    chunks = with_pings(_chunks(completion, has_usage), float(settings.AGENTS["PING_S"]))
    async with aclosing(chunks):
        async for chunk in chunks:
            # A comment: clients wait on and see nothing.
            yield b": ping\n\n" if chunk is None else _line(chunk)
    if completion.answer.error is None:
        yield b"data: [DONE]\n\n"


async def _chunks(
    completion: Completion, has_usage: bool
) -> AsyncGenerator[Mapping[str, Any], None]:
    answer, usage = completion.answer, {"usage": None} if has_usage else {}
    stub = {**completion.stub, "object": "chat.completion.chunk"}

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {**stub, "choices": [choice], **usage}

    yield chunk({"role": "assistant", "content": ""})
    async with aclosing(_heard(completion)) as texts:
        async for text in texts:
            yield chunk({"content": text})
    if answer.error is not None:
        told = localize_error(answer.error, completion.language)
        yield openai_error(500, {"code": told.get("code", "error"), **told["error"]})[1]
        return
    yield {**chunk({}, answer.finish_reason), **completion.extras}
    if has_usage:
        yield {**stub, "choices": [], "usage": answer.usage(completion.prompt)}


async def _heard(completion: Completion) -> AsyncGenerator[str, None]:
    """Yield the texts to show; the model is stopped where a stop sequence ends them."""
    answer, is_stopped = completion.answer, False
    async with aclosing(subscribe(message_id=completion.message.pk)) as events:
        async for event in events:
            if text := answer.take(event):
                yield text
            if answer.is_cut and not is_stopped:
                AnswerWorker.stop_local(completion.message.pk)
                is_stopped = True
    if answer.error is None and (rest := answer.finish()):
        yield rest


def _line(chunk: Mapping[str, Any]) -> bytes:
    data = json.dumps(chunk, ensure_ascii=False, separators=(",", ":"))
    return f"data: {data}\n\n".encode("utf-8", "replace")

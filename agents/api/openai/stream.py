"""Chat completions: an answer's events as one JSON or as streamed chunks."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import StreamingHttpResponse

from agents import models
from agents.api.http.sse import localize_error, with_pings
from agents.api.openai.errors import openai_error
from agents.chat.answers.control import subscribe
from agents.chat.answers.worker import AnswerWorker
from agents.chat.openai.answer import OpenAIAnswer
from agents.runtime.error_codes import error_from_event


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One completion under way: its row, how it is shown, and what goes along with it."""

    message: models.Message
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

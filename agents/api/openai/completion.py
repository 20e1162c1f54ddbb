"""A completion under way, for both of OpenAI's protocols: begun, heard, told without effect."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils.translation import get_language

from agents import models as rows
from agents.api.http.sse import localize_error
from agents.chat.answers.control import start_answer, subscribe
from agents.chat.answers.create import StartedAnswer
from agents.chat.answers.worker import AnswerWorker
from agents.chat.history.history import find_message
from agents.chat.openai.answer import OpenAIAnswer
from agents.chat.openai.completion_request import CompletionRequest, message_request
from agents.chat.openai.models import model_agent
from agents.runtime.event_errors import error_from_event
from rag.api.http.authentication import require_caller
from rag.api.http.idempotency import begun_once, repeatable
from rag.services.threads import run_thread_sensitive

IGNORED = "X-Citable-Ignored"
_HEADER_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
_MAX_NAMED = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWishes:
    """How the text shall come: ended by ``stops``, in pieces, with footnotes (None: unsaid)."""

    stops: Sequence[str] = ()
    is_stream: bool = False
    has_footnotes: bool | None = None
    ignored: Sequence[str] = ()


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
    def created(self) -> int:
        """Return when it was begun, in Unix time."""
        return int(self.message.created_at.timestamp())

    @property
    def extras(self) -> dict[str, Any]:
        """Return the fields that OpenAI's own answers lack."""
        about = self.answer.about(self.ignored)
        about["notices"] = [localize_error(notice, self.language) for notice in about["notices"]]
        return {"citations": self.answer.citations, "citable": about}


async def begin_completion(
    request: HttpRequest, *, asked: CompletionRequest, wishes: AnswerWishes
) -> Completion:
    """Return the completion, which is being written; raise what ``start_answer`` raises.

    One that was begun by the same request before, with its ``Idempotency-Key``, is heard again.
    """
    caller = require_caller(request, "read")

    started: StartedAnswer | None = None

    async def begin() -> dict[str, Any]:
        nonlocal started
        started = await start_answer(
            order=partial(message_request, asked=asked, scope=caller.scope)
        )
        return {"key": str(started.answer.key)}

    begun = await begun_once(repeatable(request, caller), begin)
    if started is None:
        message, agent = await run_thread_sensitive(
            lambda: (
                find_message(key=begun["key"], scope=caller.scope),
                model_agent(name=asked.model, scope=caller.scope),
            )
        )
    else:
        message, agent = started.answer, started.order.agent
    config = agent.settings
    said = (wishes.has_footnotes, caller.footnotes, config.enable_footnotes)
    # A stream cannot take back what it sent: answers that may be repaired wait for their end.
    is_repaired = config.citation_failure == "repair"
    holds = is_repaired or not (wishes.is_stream or wishes.stops)
    return Completion(
        message=message,
        model=agent.name,
        ignored=wishes.ignored,
        answer=OpenAIAnswer(wishes.stops, next(one for one in said if one is not None), holds),
        prompt="\n".join([asked.instructions, *(turn["content"] for turn in asked.turns)]),
        language=get_language() or settings.LANGUAGE_CODE,
    )


async def heard_texts(completion: Completion) -> AsyncGenerator[str, None]:
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


async def finished(completion: Completion) -> OpenAIAnswer:
    """Return the answer at its end; raise the RAGError that it failed with."""
    async with aclosing(heard_texts(completion)) as texts:
        async for _ in texts:
            pass
    if completion.answer.error is not None:
        raise error_from_event(completion.answer.error)
    return completion.answer


def event_stream(body: AsyncIterator[bytes], ignored: Sequence[str]) -> StreamingHttpResponse:
    """Return encoded events as they come, past every buffer."""
    response = StreamingHttpResponse(body, content_type="text/event-stream; charset=utf-8")
    response["Cache-Control"] = "no-cache"
    response["X-Accel-Buffering"] = "no"
    tell_ignored(response, ignored)
    return response


def tell_ignored(response: HttpResponse | StreamingHttpResponse, ignored: Sequence[str]) -> None:
    """Name in a header which parameters had no effect; names that no header holds are left out."""
    names = [name for name in ignored if _HEADER_NAME.fullmatch(name)][:_MAX_NAMED]
    if names:
        response[IGNORED] = ", ".join(names)


def encode_data(data: Mapping[str, Any], event: str = "") -> bytes:
    """Return a server-sent event of JSON."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {text}\n\n".encode("utf-8", "replace")

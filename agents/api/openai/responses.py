"""OpenAI's Responses API: ``/v1/responses``, whole and as events."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from itertools import count
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import BaseModel, ConfigDict, Field

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
from agents.api.openai.schemas import MAX_MESSAGES, ChatMessage, CitableOptions, completion_of
from agents.chat.openai.completion_request import CompletionRequest
from agents.chat.openai.response import ResponseHead, citation_annotations
from agents.conf import agent_setting
from rag.api.http.authentication import require_caller
from rag.core.errors import InvalidInputError, NotFoundError

router = Router(tags=["openai"])
_ID = re.compile(r"resp_([0-9a-f]{32})")
_Text = Annotated[str, Field(min_length=1, max_length=5_000_000)]
# An empty list is refused by a sentence of its own.
_SOME = Field(json_schema_extra={"minItems": 1, "maxItems": MAX_MESSAGES})


class ResponsesBody(BaseModel):
    """A question to an agent, in the form of OpenAI's Responses; ``model`` is its name."""

    model_config = ConfigDict(
        extra="allow",
        strict=True,
        json_schema_extra={
            "examples": [{"model": "rag", "input": "How often is the pump serviced?"}]
        },
    )

    model: str = Field(min_length=1, max_length=300)
    input: _Text | Annotated[list[dict[str, Any]], _SOME] = Field(
        description="A text, or messages."
    )
    instructions: str | None = None
    previous_response_id: str | None = Field(
        None, max_length=100, description="The response to go on from, instead of earlier turns."
    )
    stream: bool | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    max_output_tokens: int | None = Field(None, ge=1, le=65536)
    citable: CitableOptions = Field(default_factory=CitableOptions)

    def asked(self) -> CompletionRequest:
        """Return question, turns before it and wishes; raise InvalidInputError."""
        given = self.input
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        if not 0 < len(items) <= MAX_MESSAGES:
            raise InvalidInputError(
                "There are {n} messages.",
                hint="Allowed: 1 to {limit}.",
                n=len(items),
                limit=MAX_MESSAGES,
                param="input",
            )
        messages = [_message(item, place) for place, item in enumerate(items)]
        if self.instructions:
            messages.insert(0, ChatMessage(role="system", content=self.instructions))
        return completion_of(
            messages,
            model=self.model,
            temperature=self.temperature,
            max_tokens=self.max_output_tokens,
            stores=self.citable.stores,
            parent=_parent(self.previous_response_id),
        )


@router.post("/responses", summary="Ask an agent by a response")
async def create_response(request: HttpRequest, body: ResponsesBody, response: HttpResponse) -> Any:
    """Answer the last message, whole or, with `stream`, as events.

    Citations are annotations (`file_citation`) at the marks of the text. `previous_response_id`
    goes on with a conversation. Calls of tools, images and `text.format` are refused; what else is
    unknown has no effect and is named by the header `X-Citable-Ignored`.
    """
    require_caller(request, "read")
    ignored = check_parameters(body.model_extra or {})
    wishes = AnswerWishes(
        is_stream=bool(body.stream), has_footnotes=body.citable.footnotes, ignored=ignored
    )
    completion = await begin_completion(request, asked=body.asked(), wishes=wishes)
    head = _head(completion, body)
    if body.stream:
        return event_stream(_encoded(completion, head), ignored)
    tell_ignored(response, ignored)
    await finished(completion)
    return _completed(completion, head)


def _message(item: Mapping[str, Any], place: int) -> ChatMessage:
    """Return an item of the input as a message; its parts have other names for a text."""
    content = item.get("content")
    if item.get("type", "message") != "message":
        raise InvalidInputError(
            "A part of the type “{kind}” cannot be taken.",
            hint="Send text.",
            kind=str(item.get("type"))[:40],
            param=f"input.{place}",
            code="unsupported_value",
        )
    if isinstance(content, list):
        content = [
            {**part, "type": "text"}
            if isinstance(part, dict) and part.get("type") in ("input_text", "output_text")
            else part
            for part in content
        ]
    try:
        return ChatMessage.model_validate({"role": item.get("role"), "content": content})
    except ValueError as error:
        raise InvalidInputError(
            "A message has a role and a content of text.",
            hint="Send such as {example}.",
            example='{"role": "user", "content": "…"}',
            param=f"input.{place}",
        ) from error


def _parent(given: str | None) -> str:
    """Return the key of the message that a response was; raise NotFoundError for what is none."""
    if not given:
        return ""
    found = _ID.fullmatch(given)
    if found is None:
        raise NotFoundError("There is no response “{id}”.", id=given, param="previous_response_id")
    return str(uuid.UUID(found[1]))


def _head(completion: Completion, body: ResponsesBody) -> ResponseHead:
    asked = {
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "previous_response_id": body.previous_response_id,
        "temperature": body.temperature,
    }
    return ResponseHead(
        key=completion.message.key.hex,
        created=completion.created,
        model=completion.model,
        asked=asked,
    )


def _completed(completion: Completion, head: ResponseHead) -> dict[str, Any]:
    answer = completion.answer
    status = "incomplete" if answer.finish_reason == "length" else "completed"
    found = citation_annotations(text=answer.shown, citations=answer.citations)
    told = head.as_dict(
        status,
        output=[head.item(status, [head.content(answer.shown, found)])],
        usage=answer.usage(completion.prompt),
        reason="max_output_tokens" if status == "incomplete" else "",
    )
    return {**told, **completion.extras}


async def _encoded(completion: Completion, head: ResponseHead) -> AsyncIterator[bytes]:
    numbers = count()
    events = with_pings(_events(completion, head), float(agent_setting("PING_S")))
    async with aclosing(events):
        async for event in events:
            if event is None:
                yield b": ping\n\n"
                continue
            kind, data = event
            numbered = {"type": kind, "sequence_number": next(numbers), **data}
            yield encode_data(numbered, kind)


_Event = tuple[str, dict[str, Any]]


async def _events(completion: Completion, head: ResponseHead) -> AsyncGenerator[_Event, None]:
    answer = completion.answer
    place = {"item_id": head.message_id, "output_index": 0, "content_index": 0}
    yield "response.created", {"response": head.as_dict("in_progress")}
    yield "response.in_progress", {"response": head.as_dict("in_progress")}
    yield "response.output_item.added", {"output_index": 0, "item": head.item("in_progress")}
    yield "response.content_part.added", {**place, "part": head.content("")}
    async with aclosing(heard_texts(completion)) as texts:
        async for text in texts:
            yield "response.output_text.delta", {**place, "delta": text, "logprobs": []}
    if answer.error is not None:
        told = localize_error(answer.error, completion.language)
        error = openai_error(500, {"code": told.get("code", "error"), **told["error"]})[1]["error"]
        failed = {"code": "server_error", "message": error["message"]}
        yield "response.failed", {"response": head.as_dict("failed", error=failed)}
        return
    whole = _completed(completion, head)
    (item,) = whole["output"]
    (part,) = item["content"]
    for number, annotation in enumerate(part["annotations"]):
        told = {**place, "annotation_index": number, "annotation": annotation}
        yield "response.output_text.annotation.added", told
    yield "response.output_text.done", {**place, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {**place, "part": part}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    yield f"response.{whole['status']}", {"response": whole}

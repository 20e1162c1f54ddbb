"""Server-sent events: a stream of numbered events as a response, with pings in between.

Each event has an id, a name and JSON. Nothing is buffered, so that a proxy keeps the connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

from django.conf import settings
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.translation import get_language, override

from agents.chat.answers.control import subscribe
from agents.conf import agent_setting
from rag.api.http.errors import localize
from rag.core.errors import InvalidInputError, RAGError

T = TypeVar("T")


async def with_pings(
    events: AsyncGenerator[T, None], every_s: float
) -> AsyncGenerator[T | None, None]:
    """Yield the events as they come, and None whenever none came for ``every_s`` seconds."""
    following: asyncio.Future[T] | None = None
    try:
        while True:
            following = following or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({following}, timeout=every_s)
            if not done:
                yield None
                continue
            try:
                event = following.result()
            except StopAsyncIteration:
                return
            following = None
            yield event
    finally:
        if following is not None:
            following.cancel()
            # Whoever follows learns only when it has ended that nobody listens any more.
            await asyncio.wait({following})
        await events.aclose()


RETRY_MS = 2000
# For the OpenAPI document: what an operation answers that streams.
EVENT_STREAM: dict[str, Any] = {"responses": {200: {"content": {"text/event-stream": {}}}}}


class ServerSentEvent(Protocol):
    """What can be sent; ``seq`` is the id to go on after."""

    @property
    def seq(self) -> int: ...

    @property
    def kind(self) -> str: ...

    @property
    def data(self) -> Mapping[str, Any]: ...


def answer_events(message_id: int, after: int = 0) -> StreamingHttpResponse:
    """Return an answer's events from ``after`` on, worded in the request's language."""
    return sse_response(subscribe(message_id=message_id, after=after))


def sse_response(events: AsyncGenerator[ServerSentEvent, None]) -> StreamingHttpResponse:
    """Return events as they come, worded in the request's language, with pings in between."""
    body = _encoded(events, get_language() or settings.LANGUAGE_CODE)
    response = StreamingHttpResponse(body, content_type="text/event-stream; charset=utf-8")
    response["Cache-Control"] = "no-cache"
    # Proxies such as nginx would collect what should be seen at once.
    response["X-Accel-Buffering"] = "no"
    return response


def last_event_id(request: HttpRequest, after: int) -> int:
    """Return the number in ``Last-Event-ID``, else ``after``; raise InvalidInputError."""
    given = request.headers.get("Last-Event-ID", "").strip()
    if not given:
        return after
    if not given.isascii() or not given.isdigit() or len(given) > 9:
        raise InvalidInputError("“{value}” is no id of an event.", value=given[:40])
    return int(given)


def localize_error(data: Mapping[str, Any], language: str) -> dict[str, Any]:
    """Return an event's data with its error as sentences of a language."""
    stored = data.get("error")
    if not isinstance(stored, Mapping):
        return dict(data)
    with override(language):
        error = localize(RAGError.from_dict(stored))
    code = {"code": stored["code"]} if "code" in stored else {}
    return {**data, "error": {**code, **error}}


async def _encoded(
    events: AsyncGenerator[ServerSentEvent, None], language: str
) -> AsyncIterator[bytes]:
    yield f"retry: {RETRY_MS}\n\n".encode()
    async with aclosing(with_pings(events, float(agent_setting("PING_S")))) as told:
        async for event in told:
            yield b"event: ping\ndata: {}\n\n" if event is None else _text(event, language)


def _text(event: ServerSentEvent, language: str) -> bytes:
    data = json.dumps(
        localize_error(event.data, language), ensure_ascii=False, separators=(",", ":")
    )
    return f"id: {event.seq}\nevent: {event.kind}\ndata: {data}\n\n".encode("utf-8", "replace")

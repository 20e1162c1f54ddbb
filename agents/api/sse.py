"""Events as server-sent events. In: events of an answer. Out: a response that never buffers.

Each event has an id, a name and JSON; ``ping`` comes when nothing else does, so that a proxy
keeps the connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from django.conf import settings
from django.http import StreamingHttpResponse
from django.utils.translation import get_language, gettext, override

from agents.core.chat import LAST_KINDS, ChatEvent
from agents.services.chat_worker import AT_WORK
from agents.services.follow_chat import follow_chat
from rag.core.errors import RAGError

RETRY_MS = 2000


def event_stream(message_id: int, after: int = 0) -> StreamingHttpResponse:
    """Return an answer's events from ``after`` on, worded in the request's language."""
    body = _encoded(message_id, after, get_language() or settings.LANGUAGE_CODE)
    response = StreamingHttpResponse(body, content_type="text/event-stream; charset=utf-8")
    response["Cache-Control"] = "no-cache"
    # Proxies such as nginx would collect what should be seen at once.
    response["X-Accel-Buffering"] = "no"
    return response


def worded(data: Mapping[str, Any], language: str) -> dict[str, Any]:
    """Return an event's data with its error as sentences of a language."""
    stored = data.get("error")
    if not isinstance(stored, Mapping):
        return dict(data)
    error = RAGError.from_dict(stored)
    params = dict(error.params)
    with override(language):
        if "kind" in params:
            # The kind of an unknown name is a word of ours.
            params["kind"] = gettext(params["kind"])
        message = gettext(error.message).format(**params) if error.message else ""
        hint = gettext(error.hint).format(**params) if error.hint else ""
    return {**data, "error": {"message": message, "hint": hint, "params": params}}


async def _encoded(message_id: int, after: int, language: str) -> AsyncIterator[bytes]:
    is_over = False
    yield f"retry: {RETRY_MS}\n\n".encode()
    events = follow_chat(message_id=message_id, after=after)
    try:
        async for event in _with_pings(events):
            yield b"event: ping\ndata: {}\n\n" if event is None else _text(event, language)
            is_over = event is not None and event.kind in LAST_KINDS
    finally:
        worker = AT_WORK.get(message_id)
        if not is_over and worker and not settings.AGENTS["FINISHES_ALONE"]:
            worker.stop()


async def _with_pings(events: AsyncIterator[ChatEvent]) -> AsyncIterator[ChatEvent | None]:
    following: asyncio.Future[ChatEvent] | None = None
    try:
        while True:
            following = following or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({following}, timeout=float(settings.AGENTS["PING_S"]))
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


def _text(event: ChatEvent, language: str) -> bytes:
    data = json.dumps(worded(event.data, language), ensure_ascii=False, separators=(",", ":"))
    return f"id: {event.seq}\nevent: {event.kind}\ndata: {data}\n\n".encode("utf-8", "replace")

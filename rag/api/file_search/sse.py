"""Server-sent events of a file search answer: delta, citations, done, error, pings."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from django.utils.translation import get_language, override

from rag.api.file_search.errors import to_sentence
from rag.api.http.errors import HttpFailure, map_error, map_status
from rag.core.file_search import GroundedAnswer
from rag.services.answers import serialize_answer

_log = logging.getLogger(__name__)
HEARTBEAT_S = 15.0


def file_search_events(
    request: HttpRequest, pieces: AsyncIterator[GroundedAnswer], mode: str
) -> StreamingHttpResponse:
    """Return the response: ``delta`` {text}, then ``citations`` and ``done``, or ``error``.

    A comment goes out every 15 seconds of silence. A client that goes away cancels what makes the
    pieces.
    """
    response = StreamingHttpResponse(
        _events(request, pieces, mode, get_language()),
        content_type="text/event-stream; charset=utf-8",
    )
    response["Cache-Control"] = "no-cache"
    # Proxies would collect the pieces otherwise.
    response["X-Accel-Buffering"] = "no"
    return response


async def _events(
    request: HttpRequest, pieces: AsyncIterator[GroundedAnswer], mode: str, language: str | None
) -> AsyncIterator[bytes]:
    said: asyncio.Queue[GroundedAnswer | Exception | None] = asyncio.Queue()
    task = asyncio.create_task(_pump(pieces, said))
    text, last = "", GroundedAnswer("")
    try:
        while True:
            try:
                piece = await asyncio.wait_for(said.get(), HEARTBEAT_S)
            except TimeoutError:
                yield b": ping\n\n"
                continue
            if isinstance(piece, Exception):
                with override(language):
                    status, sentence = to_sentence(_failure(request, piece))
                yield _event("error", {"error": sentence, "status": status})
                return
            if piece is None:
                break
            last = piece
            if piece.text:
                text += piece.text
                yield _event("delta", {"text": piece.text})
        for name, data in _ending(text, last, mode):
            yield _event(name, data)
    finally:
        # Cancelled, not only left: that is what closes the connection to a model.
        task.cancel()
        await asyncio.wait({task})


def _ending(text: str, last: GroundedAnswer, mode: str) -> list[tuple[str, dict[str, Any]]]:
    wire = serialize_answer(replace(last, text=text), mode)
    citations = {"documents": wire["documents"], "citations": wire.get("citations", [])}
    usage = {"inputTokens": last.input_tokens, "outputTokens": last.output_tokens}
    done = {**wire, "mode": mode, "model": last.model, "usage": usage}
    return [("citations", citations), ("done", done)]


def _failure(request: HttpRequest, error: Exception) -> HttpFailure:
    failure = map_error(request, error)
    if failure is None:
        _log.error("A file search stream failed: %s", type(error).__name__, exc_info=error)
    return failure or map_status(request, 500)


async def _pump(
    pieces: AsyncIterator[GroundedAnswer], said: asyncio.Queue[GroundedAnswer | Exception | None]
) -> None:
    try:
        async with aclosing(pieces):  # type: ignore[type-var]
            async for piece in pieces:
                said.put_nowait(piece)
    except Exception as error:
        said.put_nowait(error)
    said.put_nowait(None)


def _event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()

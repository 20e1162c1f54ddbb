"""File search views: ``POST /api/rag/search`` answers (JSON or SSE), ``/store`` creates a store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing
from datetime import UTC
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from rag import models
from rag.api.file_search.calls import run_cancellable
from rag.api.file_search.errors import EMPTY_QUERY, NO_FILE, NO_MODE, NO_STORE
from rag.api.file_search.sse import file_search_events
from rag.api.http.authentication import require_caller
from rag.api.http.bodies import read_json_object
from rag.api.http.errors import json_response
from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError
from rag.core.file_search import GroundedAnswer
from rag.core.rag_node import FILE_SEARCH, MULTIMODAL, valid_files
from rag.core.sources import AnswerRequest
from rag.services.answers import (
    answer_grounded,
    check_stores,
    open_question,
    serialize_answer,
    stream_grounded,
)
from rag.services.stores import create_named_store

# Files may come within addresses; larger ones come by http.
MAX_JSON = 32 * 1024**2
router = Router()


@router.post("/search", url_name="file-search-search", include_in_schema=False)
async def file_search(request: HttpRequest) -> HttpResponseBase:
    """Answer a question; ``Accept: text/event-stream`` gets it as it comes."""
    scope = require_caller(request, "read").scope
    asked, mode = _asked(request)
    if "text/event-stream" in request.headers.get("Accept", ""):
        return await _streamed(request, asked, mode, scope)
    # A node's two steps, fetching and answering, take a model's time each.
    deadline, hosts = Deadline(2 * conf().timeout_s), [request.get_host()]
    work = partial(answer_grounded, asked=asked, scope=scope, deadline=deadline, hosts=hosts)
    return json_response(serialize_answer(await run_cancellable(deadline, work), mode))


@router.post("/search/stream", url_name="file-search-stream", include_in_schema=False)
async def stream_file_search(request: HttpRequest) -> HttpResponseBase:
    """Answer a question as it comes; who goes away stops the model."""
    scope = require_caller(request, "read").scope
    return await _streamed(request, *_asked(request), scope)


def _asked(request: HttpRequest) -> tuple[AnswerRequest, str]:
    """Return the question, to a store or to files, and the mode that chose it."""
    body = read_json_object(request, MAX_JSON)
    query, mode, store = (body.get(name) for name in ("query", "mode", "fileSearchStoreName"))
    if not isinstance(query, str) or not query.strip():
        raise InvalidInputError(EMPTY_QUERY)
    if mode not in (FILE_SEARCH, MULTIMODAL):
        raise InvalidInputError(NO_MODE)
    files = valid_files(body.get("files"))
    if mode == FILE_SEARCH and not (isinstance(store, str) and store.strip()):
        raise InvalidInputError(NO_STORE)
    if mode == MULTIMODAL and not files:
        raise InvalidInputError(NO_FILE)
    if mode == MULTIMODAL:
        return AnswerRequest(query.strip(), files=files), mode
    return AnswerRequest(query.strip(), [str(store).strip()]), mode


async def _streamed(
    request: HttpRequest, asked: AnswerRequest, mode: str, scope: Scope
) -> HttpResponseBase:
    """Return a stream; what can be refused before is refused by status."""
    deadline, stack = Deadline(2 * conf().timeout_s), ExitStack()
    if asked.stores:
        await sync_to_async(check_stores)(names=asked.stores, scope=scope)
    question = open_question(
        asked=asked, scope=scope, deadline=deadline, hosts=[request.get_host()]
    )
    prepare = await run_cancellable(deadline, stack.enter_context, question)
    return file_search_events(request, _closing(stream_grounded(prepare), stack, deadline), mode)


async def _closing(
    pieces: AsyncIterator[GroundedAnswer], stack: ExitStack, deadline: Deadline
) -> AsyncIterator[GroundedAnswer]:
    try:
        async with aclosing(pieces):  # type: ignore[type-var]
            async for piece in pieces:
                yield piece
    finally:
        deadline.cancel()
        stack.close()


@router.post("/store", url_name="file-search-store", include_in_schema=False)
def create_file_search_store(request: HttpRequest) -> HttpResponseBase:
    """Make a store that the caller owns; ``backend`` chooses where, else the installation does."""
    scope = require_caller(request, "write", "rag.add_store").scope
    body = read_json_object(request)
    shown, backend = body.get("displayName", ""), body.get("backend") or ""
    for name, value in (("displayName", shown), ("backend", backend)):
        if not isinstance(value, str):
            raise InvalidInputError("{name} must be a text.", name=name)
    store = create_named_store(scope=scope, display_name=shown, backend=backend)
    return json_response(serialize_store(store))


def serialize_store(store: models.Store) -> dict[str, Any]:
    """Return a store as the client knows it."""
    made = store.created_at.astimezone(UTC).isoformat(timespec="milliseconds")
    return {
        "name": store.resource_name,
        "displayName": store.display_name,
        "createTime": made.replace("+00:00", "Z"),
    }

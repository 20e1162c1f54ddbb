"""File search views: ``POST /api/rag/search`` answers (JSON or SSE), ``/store`` creates a store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from datetime import UTC
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
from rag.core.file_search import GroundedAnswer, GroundedQuestion
from rag.core.rag_node import FILE_SEARCH, MULTIMODAL, FileRef, valid_files
from rag.services.answers import (
    answer_files,
    ask_stores,
    check_stores,
    fetch_files,
    serialize_answer,
    stream_files,
    stream_stores,
)
from rag.services.stores import create_named_store

# Files may come within addresses; larger ones come by http.
MAX_JSON = 32 * 1024**2
router = Router()


@dataclass(frozen=True, slots=True)
class _Question:
    mode: str
    query: str
    store: str
    files: tuple[FileRef, ...]
    host: str

    @property
    def grounded(self) -> GroundedQuestion:
        return GroundedQuestion(self.query, [self.store])


@router.post("/search", url_name="file-search-search", include_in_schema=False)
async def file_search(request: HttpRequest) -> HttpResponseBase:
    """Answer a question; ``Accept: text/event-stream`` gets it as it comes."""
    scope = require_caller(request, "read").scope
    question = _question(request)
    if "text/event-stream" in request.headers.get("Accept", ""):
        return await _streamed(request, question, scope)
    # A node's two steps, fetching and answering, take a model's time each.
    deadline = Deadline(2 * conf().timeout_s)
    answer = await run_cancellable(deadline, _answer, question, scope, deadline)
    return json_response(serialize_answer(answer, question.mode))


@router.post("/search/stream", url_name="file-search-stream", include_in_schema=False)
async def stream_file_search(request: HttpRequest) -> HttpResponseBase:
    """Answer a question as it comes; who goes away stops the model."""
    scope = require_caller(request, "read").scope
    return await _streamed(request, _question(request), scope)


def _question(request: HttpRequest) -> _Question:
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
    named = store.strip() if isinstance(store, str) else ""
    return _Question(mode, query.strip(), named, files, request.get_host())


def _answer(question: _Question, scope: Scope, deadline: Deadline) -> GroundedAnswer:
    if question.mode == FILE_SEARCH:
        return ask_stores(question=question.grounded, scope=scope, deadline=deadline)
    with fetch_files(
        refs=question.files, scope=scope, deadline=deadline, hosts=[question.host]
    ) as files:
        return answer_files(question=question.query, files=files, scope=scope, deadline=deadline)


async def _streamed(request: HttpRequest, question: _Question, scope: Scope) -> HttpResponseBase:
    """Return a stream; what can be refused before is refused by status."""
    deadline, stack = Deadline(2 * conf().timeout_s), ExitStack()
    if question.mode == FILE_SEARCH:
        await sync_to_async(check_stores)(names=[question.store], scope=scope)
        pieces = stream_stores(question=question.grounded, scope=scope, deadline=deadline)
    else:
        fetching = fetch_files(
            refs=question.files, scope=scope, deadline=deadline, hosts=[question.host]
        )
        files = await run_cancellable(deadline, stack.enter_context, fetching)
        pieces = stream_files(question=question.query, files=files, scope=scope, deadline=deadline)
    return file_search_events(request, _closing(pieces, stack, deadline), question.mode)


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

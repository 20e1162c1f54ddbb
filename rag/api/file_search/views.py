"""File search views: ``POST /api/rag/search`` answers (JSON or SSE), ``/store`` creates a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from rag import models
from rag.api.file_search.http import MAX_JSON, json_body, json_response, node_view
from rag.api.file_search.sse import file_search_events
from rag.conf import conf
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError
from rag.core.file_search import GroundedAnswer, GroundedQuestion
from rag.core.rag_node import FILE_SEARCH, MULTIMODAL, FileRef, valid_files
from rag.services.access import Caller
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


@dataclass(frozen=True, slots=True)
class _Asked:
    mode: str
    query: str
    store: str
    files: tuple[FileRef, ...]
    host: str


@node_view(["POST"], "read")
async def file_search(request: HttpRequest, caller: Caller) -> HttpResponseBase:
    """Answer a question; ``Accept: text/event-stream`` gets it as it comes."""
    asked = _asked(request)
    if "text/event-stream" in request.headers.get("Accept", ""):
        return await _streamed(asked, caller)
    # A node's two steps, fetching and answering, take a model's time each.
    deadline = Deadline(2 * conf().timeout_s)
    try:
        answer = await sync_to_async(_answer)(asked, caller, deadline)
    except asyncio.CancelledError:
        deadline.cancel()
        raise
    return json_response(serialize_answer(answer, asked.mode))


@node_view(["POST"], "read")
async def stream_file_search(request: HttpRequest, caller: Caller) -> HttpResponseBase:
    """Answer a question as it comes; who goes away stops the model."""
    return await _streamed(_asked(request), caller)


def _asked(request: HttpRequest) -> _Asked:
    body = json_body(request, MAX_JSON)
    query, mode, store = (body.get(name) for name in ("query", "mode", "fileSearchStoreName"))
    if not isinstance(query, str) or not query.strip():
        raise InvalidInputError("查询内容不能为空")
    if mode not in (FILE_SEARCH, MULTIMODAL):
        raise InvalidInputError("无效的搜索模式")
    files = valid_files(body.get("files"))
    if mode == FILE_SEARCH and not (isinstance(store, str) and store.strip()):
        raise InvalidInputError("未指定 FileSearchStore")
    if mode == MULTIMODAL and not files:
        raise InvalidInputError("未提供文件")
    named = store.strip() if isinstance(store, str) else ""
    return _Asked(mode, query.strip(), named, files, request.get_host())


def _answer(asked: _Asked, caller: Caller, deadline: Deadline) -> GroundedAnswer:
    scope = caller.scope
    if asked.mode == FILE_SEARCH:
        question = GroundedQuestion(asked.query, [asked.store])
        return ask_stores(question=question, scope=scope, deadline=deadline)
    with fetch_files(refs=asked.files, scope=scope, deadline=deadline, hosts=[asked.host]) as files:
        return answer_files(question=asked.query, files=files, scope=scope, deadline=deadline)


async def _streamed(asked: _Asked, caller: Caller) -> HttpResponseBase:
    """Return a stream; what can be refused before is refused by status."""
    deadline, stack = Deadline(2 * conf().timeout_s), ExitStack()
    if asked.mode == FILE_SEARCH:
        await sync_to_async(check_stores)(names=[asked.store], scope=caller.scope)
        question = GroundedQuestion(asked.query, [asked.store])
        pieces = stream_stores(question=question, scope=caller.scope, deadline=deadline)
    else:
        fetching = fetch_files(
            refs=asked.files, scope=caller.scope, deadline=deadline, hosts=[asked.host]
        )
        try:
            files = await sync_to_async(stack.enter_context)(fetching)
        except asyncio.CancelledError:
            deadline.cancel()
            raise
        pieces = stream_files(
            question=asked.query, files=files, scope=caller.scope, deadline=deadline
        )
    return file_search_events(_closing(pieces, stack, deadline), asked.mode)


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


@node_view(["POST"], "write", "add_store")
async def create_file_search_store(request: HttpRequest, caller: Caller) -> HttpResponseBase:
    """Make a store that the caller owns; ``backend`` chooses where, else the installation does."""
    body = json_body(request)
    shown, backend = body.get("displayName", ""), body.get("backend") or ""
    for name, value in (("displayName", shown), ("backend", backend)):
        if not isinstance(value, str):
            raise InvalidInputError("{name} must be a text.", name=name)
    store = await sync_to_async(create_named_store)(
        scope=caller.scope, display_name=shown, backend=backend
    )
    return json_response(serialize_store(store))


def serialize_store(store: models.Store) -> dict[str, Any]:
    """Return a store as the client knows it."""
    made = store.created_at.astimezone(UTC).isoformat(timespec="milliseconds")
    return {
        "name": store.resource_name,
        "displayName": store.display_name,
        "createTime": made.replace("+00:00", "Z"),
    }

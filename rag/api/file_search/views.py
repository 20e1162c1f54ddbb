"""Routes of file search: answers (JSON or SSE), new stores, uploads, and nodes of a builder.

Sync work of an async view is cancelled when its client goes away.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, aclosing
from dataclasses import asdict
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from rag import models
from rag.api.file_search.errors import EMPTY_QUERY, NO_FILE, NO_MODE, NO_STORE, TOO_LARGE
from rag.api.file_search.sse import file_search_events
from rag.api.http.authentication import require_caller
from rag.api.http.bodies import read_json_object
from rag.api.http.errors import json_response
from rag.api.http.idempotency import done_once, repeatable, upload_digest
from rag.api.http.schemas import json_body
from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError, LimitError
from rag.core.file_search import GroundedAnswer, RemoteDocument, Upload
from rag.core.rag_node import FILE_SEARCH, MULTIMODAL, RAGNodeData, valid_files
from rag.core.sources import AnswerRequest
from rag.services.answers import (
    RagNodeRequest,
    answer_grounded,
    check_stores,
    find_rag_node,
    open_question,
    run_rag_node,
    save_rag_node,
    serialize_answer,
    serialize_rag_node,
    stream_grounded,
)
from rag.services.files import chunk_rule_for, upload_document
from rag.services.stores import create_named_store, find_stores

# Files may come within addresses; larger ones come by http.
MAX_JSON = 32 * 1024**2
router = Router(tags=["file search"])
_YES_OR_NO = {"": False, **dict.fromkeys(("1", "true", "yes", "on"), True)} | dict.fromkeys(
    ("0", "false", "no", "off"), False
)

_SEARCH = json_body(
    {
        "query": {"type": "string", "minLength": 1, "pattern": "\\S"},
        "mode": {"enum": [FILE_SEARCH, MULTIMODAL]},
        "fileSearchStoreName": {"type": "string"},
        "files": {"type": "array", "items": {"type": "object"}},
    },
    required=("query", "mode"),
)
_STORE = json_body(
    {
        "displayName": {"type": "string", "minLength": 1, "maxLength": 512},
        "backend": {"enum": ["", *models.Store.Backend.values]},
    }
)
_UPLOAD = json_body(
    {
        "file": {"type": "string", "format": "binary"},
        "fileSearchStoreName": {"type": "string", "minLength": 1},
        "displayName": {"type": "string"},
        "maxTokensPerChunk": {
            "type": "string",
            "pattern": "^([5-9][0-9]|[1-4][0-9]{2}|500)?$",
            "description": "50 to 500.",
        },
        "maxOverlapTokens": {
            "type": "string",
            "pattern": "^([0-9]{1,2}|100)?$",
            "description": "0 to 100.",
        },
        "wait": {"enum": [text for text in _YES_OR_NO if text]},
    },
    required=("file", "fileSearchStoreName"),
    kind="multipart/form-data",
)

P = ParamSpec("P")
T = TypeVar("T")


async def run_cancellable(
    deadline: Deadline, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Return what ``work`` returns, on the database's thread; who goes away cancels it."""
    try:
        found: Any = await sync_to_async(work)(*args, **kwargs)
    except asyncio.CancelledError:
        deadline.cancel()
        raise
    return found  # type: ignore[no-any-return]


@router.post(
    "/search",
    url_name="file-search-search",
    summary="Answer from a store or files",
    openapi_extra=_SEARCH,
)
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


@router.post(
    "/search/stream",
    url_name="file-search-stream",
    summary="Answer from a store or files, as events",
    openapi_extra=_SEARCH,
)
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


@router.post(
    "/store",
    url_name="file-search-store",
    summary="Make a store for file search",
    openapi_extra=_STORE,
)
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


@router.post(
    "/upload",
    url_name="file-search-upload",
    summary="Upload a document for file search",
    openapi_extra=_UPLOAD,
)
async def upload(request: HttpRequest) -> HttpResponseBase:
    """Take a document in; ``state`` says whether it can be found yet.

    To Gemini it is sent before the answer; in a store of ours it is queued, and ``wait`` waits.
    Who goes away cancels it. With `Idempotency-Key` the same form is taken once.
    """
    deadline = Deadline(conf().upload_timeout_s)
    document = await run_cancellable(deadline, _store_document, request, deadline)
    return json_response(
        {
            "name": document.name,
            "displayName": document.display_name,
            "sizeBytes": document.size_bytes,
            "state": document.state,
        }
    )


def _store_document(request: HttpRequest, deadline: Deadline) -> RemoteDocument:
    caller = require_caller(request, "write", "rag.add_file")
    scope = caller.scope
    if request.content_type != "multipart/form-data":
        raise InvalidInputError(
            "The request's type of content is not accepted here.", hint="Send multipart/form-data."
        )
    # Only now the form is read: who has no key does not get that far.
    given: Any = request.FILES.get("file")
    form = request.POST
    if given is None or not given.size:
        raise InvalidInputError(NO_FILE)
    limit = conf().max_file_bytes
    if given.size > limit:
        raise LimitError(TOO_LARGE, limit=limit // 1024**2)
    named = form.get("fileSearchStoreName", "").strip()
    if not named:
        raise InvalidInputError(NO_STORE)
    size = _number(form, "maxTokensPerChunk")
    overlap = _number(form, "maxOverlapTokens")
    store = find_stores(names=[named], scope=scope)[0]
    sent = Upload(
        path=Path(given.temporary_file_path()),
        display_name=form.get("displayName", "").strip() or given.name or "",
        mime_type="",
        rule=chunk_rule_for(store, size, overlap),
    )
    is_waiting = _YES_OR_NO.get(form.get("wait", "").strip().lower())
    if is_waiting is None:
        raise InvalidInputError("{name} must be true or false.", name="wait")
    parts = [json.dumps(form.dict(), sort_keys=True), given.name or ""]
    if "Idempotency-Key" in request.headers:
        parts.append(upload_digest(given))
    told = done_once(
        repeatable(request, caller, *parts, state=scope.fingerprint),
        lambda: asdict(
            upload_document(
                scope=scope, store=store, upload=sent, deadline=deadline, is_waiting=is_waiting
            )
        ),
    )
    return RemoteDocument(**told)


def _number(form: Any, name: str) -> int | None:
    value = form.get(name, "").strip()
    if not value:
        return None
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise InvalidInputError("{name} must be a whole number.", name=name)
    return int(value)


@router.get("/nodes/{node_id}", url_name="file-search-node", summary="Read a node")
def read_node(request: HttpRequest, node_id: str) -> HttpResponseBase:
    """Return a node's data."""
    scope = require_caller(request, "read").scope
    return json_response(serialize_rag_node(node=find_rag_node(scope=scope, node_id=node_id)))


@router.post(
    "/nodes/{node_id}",
    url_name="file-search-node",
    summary="Save a node",
    openapi_extra=json_body({}),
)
def save_node(request: HttpRequest, node_id: str) -> HttpResponseBase:
    """Save a node's data and return it; one without a store gets one."""
    scope = require_caller(request, "write", "rag.add_store").scope
    data = RAGNodeData.from_wire(read_json_object(request))
    node = save_rag_node(scope=scope, node_id=node_id, data=data)
    return json_response(serialize_rag_node(node=node))


@router.post(
    "/nodes/{node_id}/run",
    url_name="file-search-run",
    summary="Run a node",
    openapi_extra=json_body({"context": {"type": "object"}, "mockData": {"type": "object"}}),
)
async def run_node(request: HttpRequest, node_id: str) -> HttpResponseBase:
    """Run a saved node with ``context`` and ``mockData`` and keep what it found."""
    scope = require_caller(request, "read").scope
    body = read_json_object(request)
    for name in ("context", "mockData"):
        if not isinstance(body.get(name) or {}, dict):
            raise InvalidInputError("{name} must be an object.", name=name)
    deadline, host = Deadline(2 * conf().timeout_s), request.get_host()
    return json_response(
        await run_cancellable(deadline, _run, host, scope, node_id, body, deadline)
    )


def _run(
    host: str, scope: Scope, node_id: str, body: dict[str, Any], deadline: Deadline
) -> dict[str, Any]:
    node = find_rag_node(scope=scope, node_id=node_id)
    context, mock_data = body.get("context") or {}, body.get("mockData") or {}
    run = RagNodeRequest(node.node_data, context, mock_data, hosts=[host], node=node)
    return run_rag_node(run=run, scope=scope, deadline=deadline)

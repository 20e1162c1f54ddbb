"""``POST /api/rag/upload``: a document into a store, from a multipart form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from rag.api.file_search.calls import run_cancellable
from rag.api.file_search.errors import NO_FILE, NO_STORE, TOO_LARGE
from rag.api.http.authentication import require_caller
from rag.api.http.errors import json_response
from rag.conf import conf
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError, LimitError
from rag.core.file_search import RemoteDocument, Upload
from rag.services.files import chunk_rule_for, upload_document
from rag.services.stores import find_stores

router = Router()
_YES_OR_NO = {"": False, **dict.fromkeys(("1", "true", "yes", "on"), True)} | dict.fromkeys(
    ("0", "false", "no", "off"), False
)


@router.post("/upload", url_name="file-search-upload", include_in_schema=False)
async def upload(request: HttpRequest) -> HttpResponseBase:
    """Take a document in; ``state`` says whether it can be found yet.

    To Gemini it is sent before the answer; in a store of ours it is queued, and ``wait`` waits.
    Who goes away cancels it.
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
    scope = require_caller(request, "write", "rag.add_file").scope
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
    return upload_document(
        scope=scope, store=store, upload=sent, deadline=deadline, is_waiting=is_waiting
    )


def _number(form: Any, name: str) -> int | None:
    value = form.get(name, "").strip()
    if not value:
        return None
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise InvalidInputError("{name} must be a whole number.", name=name)
    return int(value)

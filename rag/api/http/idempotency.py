"""``Idempotency-Key`` of a request: read, and the work done once for it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from django.http import HttpRequest

from rag.core.errors import InvalidInputError
from rag.services.access import (
    Caller,
    Repeatable,
    claim_request,
    forget_request,
    keep_result,
)
from rag.services.threads import run_thread_sensitive

_KEY = re.compile(r"[!-~]{1,255}")


def repeatable(
    request: HttpRequest, caller: Caller, *parts: bytes | str, state: str = ""
) -> Repeatable | None:
    """Return the request as its caller may send it again; None without an ``Idempotency-Key``.

    ``parts`` are what it asks; without any its body is. ``state`` is what else its result depends
    on. Raises InvalidInputError for a key that is
    none.
    """
    key = request.headers.get("Idempotency-Key", "")
    if not key:
        return None
    if not _KEY.fullmatch(key):
        raise InvalidInputError(
            "The Idempotency-Key is no text of 1 to 255 visible ASCII characters.",
            hint="Send a UUID, a new one for each request.",
        )
    digest = hashlib.sha256(f"{request.method} {request.path}".encode())
    for part in parts or (request.body,):
        digest.update(b"\0")
        digest.update(part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part)
    return Repeatable(caller=_who(caller), key=key, fingerprint=digest.hexdigest(), state=state)


def upload_digest(upload: Any) -> str:
    """Return the digest of a form's file, which is on disk."""
    with Path(upload.temporary_file_path()).open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _who(caller: Caller) -> str:
    if caller.scope.visitor is not None:
        return f"visitor:{caller.scope.visitor.digest[:32]}"
    return f"user:{caller.user.pk}" if caller.key_id is None else f"key:{caller.key_id}"


def done_once(request: Repeatable | None, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what ``work`` returns, or did when the request came first."""
    if request is None:
        return work()
    known = claim_request(request=request)
    if known is not None:
        return known
    try:
        result = work()
    except BaseException:
        forget_request(request=request)
        raise
    keep_result(request=request, result=result)
    return result


async def begun_once(
    request: Repeatable | None, begin: Callable[[], Awaitable[dict[str, Any]]]
) -> dict[str, Any]:
    """Return what ``begin`` returns, such as a row's key, or did when the request came first."""
    if request is None:
        return await begin()
    known = await run_thread_sensitive(claim_request, request=request)
    if known is not None:
        return known
    try:
        result = await begin()
    except BaseException:
        await run_thread_sensitive(forget_request, request=request)
        raise
    await run_thread_sensitive(keep_result, request=request, result=result)
    return result

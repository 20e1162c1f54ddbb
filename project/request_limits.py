"""Request limits: the ASGI handler that bounds size, time and encoding of request bodies.

What is too large, too slow or cannot be read is answered before a view sees it, and the rest of
it is not kept.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial
from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.urls import ResolverMatch, get_resolver
from django.utils.functional import cached_property
from django.utils.translation import get_language_from_request, override

from project.middleware import check_csrf_on_loop
from project.request_threads import RequestThreadContext
from rag.api.http.errors import map_error, map_status, render_json
from rag.core.errors import LimitError

MB = 1024**2
# Forms bring documents, each with a limit of its own; all else is JSON or an archive.
MAX_FORM, MAX_BODY = 1024 * MB, 40 * MB
# Between two pieces of a body.
BODY_TIMEOUT_S = 60.0
_UTF8 = frozenset({"utf-8", "ascii"})
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class CheckedRequest(ASGIRequest):
    """A request in UTF-8, whose cookies the database can look up.

    Raises SuspiciousOperation for a form in another charset, and ValueError for headers that
    cannot be read.
    """

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        super()._set_content_type_params(meta)  # type: ignore[misc]  # not in the stubs
        if self.encoding is None or codecs.lookup(self.encoding).name in _UTF8:
            return
        if (self.content_type or "").startswith("multipart/"):
            # Some codecs of Python's are none of texts, and some make halves of characters.
            raise SuspiciousOperation("A form in another charset than UTF-8.")
        # JSON is UTF-8, whatever is said of it.
        self.encoding = "utf-8"

    @cached_property
    def COOKIES(self) -> dict[str, str]:  # type: ignore[override]
        """Return the cookies; a quoted one can spell a NUL, which no session's key holds."""
        return {name: value for name, value in super().COOKIES.items() if "\0" not in value}


class LimitedBody:
    """The receiving end of a request: LimitError when too much comes, TimeoutError for silence."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = dict(scope["headers"])
        is_form = headers.get(b"content-type", b"").lower().startswith(b"multipart/")
        declared = headers.get(b"content-length", b"")
        self.is_open, self._receive = True, receive
        self._limit = MAX_FORM if is_form else MAX_BODY
        self._n_declared = int(declared[:20]) if declared.isdigit() else 0
        self._n_received = 0

    async def __call__(self) -> Any:
        """Return the next message; after the last of the body it may come whenever it will."""
        if not self.is_open:
            return await self._receive()
        self._check(self._n_declared)
        async with asyncio.timeout(BODY_TIMEOUT_S):
            message = await self._receive()
        self._n_received += len(message.get("body", b""))
        self._check(self._n_received)
        self.is_open = message.get("more_body", False)
        return message

    def _check(self, n_bytes: int) -> None:
        if n_bytes > self._limit:
            raise LimitError("The request is larger than {limit} MB.", limit=self._limit // MB)


class _Refused(BytesIO):
    def __init__(self, reason: Exception) -> None:
        super().__init__()
        self.reason = reason


# Characters; an address that somebody made up may have sixty thousand.
_MAX_KEPT_PATH = 200


# Nothing of a request is in a match but what its address says. No match is not kept.
@lru_cache(maxsize=256)
def _resolved(urlconf: str, path: str) -> ResolverMatch:
    return get_resolver(urlconf).resolve(path)


class LimitedASGIHandler(ASGIHandler):
    """Django, request through ``LimitedBody`` and ``CheckedRequest``; there are no websockets."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
            return
        async with RequestThreadContext():
            await super().__call__(scope, LimitedBody(scope, receive), send)

    def adapt_method_mode(
        self,
        is_async: bool,
        method: Any,
        method_is_async: bool | None = None,
        debug: bool = False,
        name: str | None = None,
    ) -> Any:
        """Return the method for the event loop or a thread; the CSRF check chooses by itself."""
        if is_async and isinstance(getattr(method, "__self__", None), CsrfViewMiddleware):
            return partial(check_csrf_on_loop, method)
        return super().adapt_method_mode(is_async, method, method_is_async, debug, name)

    def resolve_request(self, request: HttpRequest) -> ResolverMatch:
        """Return the view of an address; ninety patterns are compared with a new one alone."""
        if hasattr(request, "urlconf") or len(request.path_info) > _MAX_KEPT_PATH:
            return super().resolve_request(request)
        request.resolver_match = _resolved(settings.ROOT_URLCONF, request.path_info)
        return request.resolver_match

    async def read_body(self, receive: Receive) -> Any:
        """Return the body as a file, an empty one with the reason when it is refused."""
        try:
            return await super().read_body(receive)
        except (LimitError, OSError) as error:
            # TimeoutError is an OSError, as a full disk's is.
            return _Refused(error)

    def create_request(
        self, scope: Scope, body_file: Any
    ) -> tuple[ASGIRequest, None] | tuple[None, HttpResponse]:
        """Return the request, or the answer that refuses it."""
        if isinstance(body_file, _Refused):
            return None, _refusal(scope, body_file.reason)
        read = read_request(scope, body_file)
        return (read, None) if isinstance(read, CheckedRequest) else (None, read)


def read_request(scope: Scope, body_file: Any) -> CheckedRequest | HttpResponse:
    """Return the request of a scope, or the answer that refuses what cannot be read."""
    try:
        return CheckedRequest(scope, body_file)
    except (ValueError, LookupError, SuspiciousOperation) as error:
        return _refusal(scope, SuspiciousOperation(error))


async def read_limited_body(scope: Scope, receive: Receive) -> bytes | HttpResponse:
    """Return a body that is small enough for the memory, or the answer that refuses it."""
    measured, pieces = LimitedBody(scope, receive), list[bytes]()
    try:
        while measured.is_open:
            pieces.append((await measured()).get("body", b""))
    except (LimitError, TimeoutError) as error:
        return _refusal(scope, error)
    return b"".join(pieces)


def _refusal(scope: Scope, error: Exception) -> HttpResponse:
    request = HttpRequest()
    language = dict(scope["headers"]).get(b"accept-language", b"")
    request.META["HTTP_ACCEPT_LANGUAGE"] = language.decode("latin-1")
    with override(get_language_from_request(request)):
        if isinstance(error, TimeoutError):
            return render_json(map_status(request, 408))
        return render_json(map_error(request, error) or map_status(request, 500))

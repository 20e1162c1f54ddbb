"""ASGI application of ``/mcp``: checks method, origin and key, then calls the MCP server.

Django's middleware does not run here; keys and rights are checked by the same functions as there.
"""

from __future__ import annotations

import io
from typing import Any
from urllib.parse import urlsplit

from corsheaders.middleware import CorsMiddleware
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.utils.translation import get_language_from_request, override

from project.request_limits import Receive, Send, read_limited_body, read_request
from project.request_threads import RequestThreadContext
from rag.api.http.authentication import authenticate, require_right
from rag.api.http.errors import map_error, map_status, render_json
from rag.core.errors import ForbiddenError
from rag.core.request_context import RequestContext, set_request
from rag.services.access import Caller
from rag.services.threads import run_thread_sensitive

# Only its headers: what is called by a page of another site is decided by the key.
_CORS = CorsMiddleware(lambda request: HttpResponse())
PATHS = frozenset({settings.MCP_PATH, f"{settings.MCP_PATH}/"})


async def mcp_application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Serve one request of a caller whose key may read."""
    async with RequestThreadContext():
        request = read_request(scope, io.BytesIO())
        if isinstance(request, HttpResponse):
            await _send(request, send)
            return
        send = _with_cors(request, send)
        language = get_language_from_request(request)
        set_request(RequestContext("api", address=request.META.get("REMOTE_ADDR", "")))
        with override(language):
            caller = await _admitted(request)
        if isinstance(caller, HttpResponse):
            await _send(caller, send)
            return
        # The SDK is heavy and belongs to these requests alone.
        from agents.api.mcp.server import LANGUAGE, SCOPE, serve_mcp

        body = await read_limited_body(scope, receive)
        if isinstance(body, HttpResponse):
            await _send(body, send)
            return
        asked = {**scope, SCOPE: caller.scope, LANGUAGE: language}
        await serve_mcp(asked, _first(body, receive), send)


def _with_cors(request: ASGIRequest, send: Send) -> Send:
    """Return a sending end that adds what lets pages of listed origins read the answer."""
    told = _CORS.add_response_headers(request, HttpResponse())
    names = [name for name in told.headers if name != "Content-Type"]
    added = [(name.lower().encode(), told[name].encode("latin-1")) for name in names]

    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return sending


def _first(body: bytes, receive: Receive) -> Receive:
    """Return a receiving end that gives the body, and then what comes after it."""
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def received() -> Any:
        return next(messages, None) or await receive()

    return received


async def _admitted(request: ASGIRequest) -> Caller | HttpResponse:
    if request.method == "OPTIONS":
        told = HttpResponse(status=204)
        told["Allow"] = "OPTIONS, POST"
        return told
    if request.method != "POST":
        # There is no stream to open and no session to end.
        refusal = render_json(map_status(request, 405))
        refusal["Allow"] = "POST"
        return refusal
    try:
        _check_origin(request)
        caller = await run_thread_sensitive(authenticate, request, "key")
        if caller is None:
            return render_json(map_status(request, 401))
        require_right(caller, "read")
    except Exception as error:
        failure = map_error(request, error)
        if failure is None:
            raise
        return render_json(failure)
    return caller


def _check_origin(request: ASGIRequest) -> None:
    """Refuse pages of other sites: a browser must not be led to call us with a name of ours."""
    host, origin = request.get_host(), request.headers.get("Origin")
    listed = (*settings.CSRF_TRUSTED_ORIGINS, *settings.CORS_ALLOWED_ORIGINS)
    if not origin or origin in listed:
        return
    if urlsplit(origin).netloc != host:
        raise ForbiddenError(
            "Pages of {origin} may not call this.",
            hint="Add it to CORS_ALLOWED_ORIGINS.",
            origin=origin[:200],
        )


async def _send(answer: HttpResponse, send: Send) -> None:
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.items()
    ]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": answer.content})

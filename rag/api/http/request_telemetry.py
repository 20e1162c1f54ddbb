"""Middleware that gives logs, audit, metrics and spans a request's id, caller and duration."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from rag.core import metrics
from rag.core.request_context import RequestContext, set_request

HEADER = "X-Request-ID"
_ID = re.compile(r"[\w.-]{8,64}")
# Who asks often and only for a sign of life.
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
log = logging.getLogger("rag.access")


@sync_and_async_middleware
def request_telemetry(
    get_response: Callable[[HttpRequest], Any],
) -> Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]:
    """Return the middleware that gives logs, audit, metrics and spans a request's id and duration.

    An id that a proxy has given is kept, and every answer tells it.
    """
    if iscoroutinefunction(get_response):

        async def middleware(request: HttpRequest) -> HttpResponseBase:
            facts = set_request(_facts(request))
            with _span(request) as span:
                return _finish(request, await get_response(request), facts, span)

        return middleware

    def sync_middleware(request: HttpRequest) -> HttpResponseBase:
        facts = set_request(_facts(request))
        with _span(request) as span:
            return _finish(request, get_response(request), facts, span)

    return sync_middleware


def _facts(request: HttpRequest) -> RequestContext:
    given = request.headers.get(HEADER, "")
    facts = RequestContext(
        "admin" if request.path_info.startswith("/admin/") else "api",
        address=request.META.get("REMOTE_ADDR", ""),
        who=lambda: _user_id(request),
    )
    if _ID.fullmatch(given):
        facts.id = given
    return facts


def _user_id(request: HttpRequest) -> int | None:
    user = getattr(request, "user", None)
    return user.pk if user is not None and user.is_authenticated else None


def _span(request: HttpRequest) -> Any:
    return metrics.span("request", method=request.method or "")


def _finish(
    request: HttpRequest, response: HttpResponseBase, facts: RequestContext, span: metrics.Span
) -> HttpResponseBase:
    response[HEADER] = facts.id
    # Streams go on after this; whoever has a copy of the context later knows nobody any more.
    response._resource_closers.append(lambda: _forget(facts))  # type: ignore[attr-defined]
    route = _route(request)
    seconds = time.perf_counter() - span.started
    span.facts.update(route=route, status=response.status_code, request=facts.id)
    method, status = request.method or "", str(response.status_code)
    metrics.observe("request", seconds, route=route, method=method, status=status)
    if request.path_info not in _QUIET:
        told = {
            "method": method,
            "route": route,
            "status": response.status_code,
            "duration_ms": round(seconds * 1e3, 1),
        }
        log.info("%s %s %s", method, route, status, extra={"facts": told})
    return response


def _route(request: HttpRequest) -> str:
    """Return the pattern of the address: never what somebody put into it."""
    match = request.resolver_match
    return f"/{match.route}" if match is not None else "unknown"


def _forget(facts: RequestContext) -> None:
    facts.user_id = facts.key_id = facts.who = None
    facts.edge = facts.id = facts.address = ""

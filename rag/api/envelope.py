"""What every answer below /api/ has in common. In: a response. Out: the same, or JSON for an error.

Addresses that lead nowhere, methods that ninja refuses and our own faults are told as JSON too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from rag.api.problems import problem_of_status
from rag.services.quotas import Quota

PREFIX = "/api/"
_KEPT = ("Allow", "Retry-After", "WWW-Authenticate")


@sync_and_async_middleware
def api_envelope(
    get_response: Callable[[HttpRequest], Any],
) -> Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]:
    """Return the middleware: the limit's headers on all answers, JSON for all errors."""
    if iscoroutinefunction(get_response):

        async def middleware(request: HttpRequest) -> HttpResponseBase:
            return _finish(request, await get_response(request))

        return middleware

    def sync_middleware(request: HttpRequest) -> HttpResponseBase:
        return _finish(request, get_response(request))

    return sync_middleware


def _finish(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if not request.path_info.startswith(PREFIX):
        return response
    is_json = response.get("Content-Type", "").startswith("application/json")
    if response.status_code >= 400 and not is_json and not _is_for_developers(response):
        told = problem_of_status(request, response.status_code)
        for name in _KEPT:
            if name in response:
                told[name] = response[name]
        response = told
    quota = getattr(request, "rag_quota", None)
    if isinstance(quota, Quota):
        response["X-RateLimit-Limit"] = str(quota.limit)
        response["X-RateLimit-Remaining"] = str(quota.remaining)
        response["X-RateLimit-Reset"] = str(quota.reset_s)
    return response


def _is_for_developers(response: HttpResponseBase) -> bool:
    return settings.DEBUG and response.status_code >= 500

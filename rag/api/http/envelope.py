"""Response middleware: rate-limit headers, and JSON for errors that Django answers as HTML."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from rag.api.http.errors import status_response
from rag.services.access import RateLimit

Render = Callable[[HttpRequest, HttpResponseBase], HttpResponseBase | None]
PREFIX = "/api/"
_KEPT = ("Allow", "Retry-After", "WWW-Authenticate")


def envelope(
    prefix: str, render: Render, limits: Callable[[RateLimit], dict[str, str]]
) -> Callable[[Callable[[HttpRequest], Any]], Any]:
    """Return a middleware for the answers below ``prefix``: the limit's headers on all of them.

    ``render`` words an error that is not JSON yet; None lets it be. ``limits`` names the headers.
    """

    def finish(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not request.path_info.startswith(prefix):
            return response
        is_json = response.get("Content-Type", "").startswith("application/json")
        if response.status_code >= 400 and not is_json:
            rendered = render(request, response)
            for name in _KEPT:
                if rendered is not None and name in response:
                    rendered[name] = response[name]
            response = response if rendered is None else rendered
        quota = getattr(request, "rag_quota", None)
        if isinstance(quota, RateLimit):
            for name, value in limits(quota).items():
                response[name] = value
        return response

    @sync_and_async_middleware
    def made(
        get_response: Callable[[HttpRequest], Any],
    ) -> Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]:
        if iscoroutinefunction(get_response):

            async def middleware(request: HttpRequest) -> HttpResponseBase:
                return finish(request, await get_response(request))

            return middleware

        def sync_middleware(request: HttpRequest) -> HttpResponseBase:
            return finish(request, get_response(request))

        return sync_middleware

    return made


def _status_json(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase | None:
    return None if _is_for_developers(response) else status_response(request, response.status_code)


def _is_for_developers(response: HttpResponseBase) -> bool:
    return settings.DEBUG and response.status_code >= 500


def _limits(quota: RateLimit) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(quota.limit),
        "X-RateLimit-Remaining": str(quota.remaining),
        "X-RateLimit-Reset": str(quota.reset_s),
    }


api_envelope = envelope(PREFIX, _status_json, _limits)

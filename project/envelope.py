"""Response middleware of the APIs: rate-limit headers, and JSON for errors that are none yet.

Unknown addresses, methods that ninja refuses and faults of ours get the form that their API's
clients read; the error map is the same for all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from agents.api.openai.errors import render_openai_error
from rag.api.file_search.errors import ROUTES, render_sentence
from rag.api.http.errors import HttpFailure, Renderer, map_status, render_json
from rag.services.access import RateLimit

_KEPT = ("Allow", "Retry-After", "WWW-Authenticate", "X-Frame-Options")


@dataclass(frozen=True, slots=True)
class ApiForm:
    """How an API renders its errors, and the headers of its rate limit as format strings."""

    render: Renderer
    limits: Mapping[str, str]


_LIMITS = {
    "X-RateLimit-Limit": "{0.limit}",
    "X-RateLimit-Remaining": "{0.remaining}",
    "X-RateLimit-Reset": "{0.reset_s}",
}
_API, _FILE_SEARCH = ApiForm(render_json, _LIMITS), ApiForm(render_sentence, _LIMITS)
_OPENAI = ApiForm(
    render_openai_error,
    {
        "x-ratelimit-limit-requests": "{0.limit}",
        "x-ratelimit-remaining-requests": "{0.remaining}",
        "x-ratelimit-reset-requests": "{0.reset_s}s",
    },
)


def form_of(request: HttpRequest) -> ApiForm | None:
    """Return the form of an address, None outside the APIs."""
    if request.path_info.startswith("/v1/"):
        return _OPENAI
    if not request.path_info.startswith("/api/"):
        return None
    match = request.resolver_match
    return _FILE_SEARCH if match is not None and match.url_name in ROUTES else _API


def render_failure(request: HttpRequest, failure: HttpFailure) -> HttpResponseBase:
    """Return a failure in the form of the request's API."""
    return (form_of(request) or _API).render(failure)


@sync_and_async_middleware
def envelope(
    get_response: Callable[[HttpRequest], Any],
) -> Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]:
    """Middleware for the answers of the APIs; all others pass."""
    if iscoroutinefunction(get_response):

        async def middleware(request: HttpRequest) -> HttpResponseBase:
            return _finish(request, await get_response(request))

        return middleware

    def sync_middleware(request: HttpRequest) -> HttpResponseBase:
        return _finish(request, get_response(request))

    return sync_middleware


def _finish(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    form = form_of(request)
    if form is None:
        return response
    if response.status_code >= 400 and not _is_told(response):
        rendered = form.render(map_status(request, response.status_code))
        for name in _KEPT:
            if name in response:
                rendered[name] = response[name]
        response = rendered
    quota = getattr(request, "rag_quota", None)
    if isinstance(quota, RateLimit):
        for name, value in form.limits.items():
            response[name] = value.format(quota)
    return response


def _is_told(response: HttpResponseBase) -> bool:
    """Return whether an error is JSON already, or a fault's page for developers."""
    is_page = settings.DEBUG and response.status_code >= 500
    return is_page or response.get("Content-Type", "").startswith("application/json")

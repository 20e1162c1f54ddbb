"""Middleware: telemetry of each request, error forms of the APIs, and Django's own without threads.

Unknown addresses, methods that ninja refuses and faults of ours get the form that the clients of
their API read; the error map is the same for all. What is Django's and WhiteNoise's runs on the
event loop, for it waits for nothing; only changed sessions and messages are written on a thread.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.common import CommonMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.gzip import GZipMiddleware
from django.middleware.locale import LocaleMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils.deprecation import MiddlewareMixin
from whitenoise.middleware import WhiteNoiseMiddleware

from agents.api.openai.errors import render_openai_error
from project.accounts.throttle import locked_response, remember_browser
from project.content_security import POLICY
from rag.api.file_search.errors import ROUTES, render_sentence
from rag.api.http.errors import HttpFailure, Renderer, map_error, map_status, render_json
from rag.services.access import RateLimit

_ENDS_IN_SLASH = re.compile(r"/(?:admin|i18n|static|accounts)/|/(?:api/|v1/)?$")
# Bytes; less is packed in a millisecond or two.
_LARGE = 200_000


async def _on_loop(self: Any, request: HttpRequest) -> HttpResponseBase:
    """Run the hooks of a middleware where the request is, and on a thread only what ``waits``."""
    early = self.process_request(request) if hasattr(self, "process_request") else None
    response: HttpResponseBase = early or await self.get_response(request)
    if not hasattr(self, "process_response"):
        return response
    if hasattr(self, "waits") and self.waits(request, response):
        response = await sync_to_async(self.process_response)(request, response)
    else:
        response = self.process_response(request, response)
    return response


# These set headers and read cookies alone. They keep their names, which ``check --deploy`` looks
# for; each change of threads costs as much as finding out who calls.
for _kind in (SecurityMiddleware, CsrfViewMiddleware, XFrameOptionsMiddleware):
    _kind.__acall__ = _on_loop  # type: ignore[method-assign]


async def check_csrf_on_loop(check: Callable[..., Any], request: HttpRequest, *view: Any) -> Any:
    """Return what Django's CSRF check says of a view; only where it reads a form it takes a thread.

    The views of the APIs are exempt: keys need no token, and sessions are checked with the caller.
    """
    if getattr(view[0], "csrf_exempt", False) or request.method in _SAFE:
        return check(request, *view)
    return await sync_to_async(check)(request, *view)


_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class _Light(MiddlewareMixin):
    __acall__ = _on_loop

    def waits(self, request: HttpRequest, response: HttpResponseBase) -> bool:
        """Return whether the answer is held up by something to write or to work out."""
        return False


class AsyncSessionMiddleware(_Light, SessionMiddleware):
    """Sessions; a changed one is written on a thread."""

    def waits(self, request: HttpRequest, response: HttpResponseBase) -> bool:
        """Return whether the session was changed."""
        return bool(request.session.modified)


class AsyncMessageMiddleware(_Light, MessageMiddleware):
    """Messages for the next page; those that were read or added are written on a thread."""

    def waits(self, request: HttpRequest, response: HttpResponseBase) -> bool:
        """Return whether messages were read or added."""
        messages = request._messages  # type: ignore[attr-defined]
        return bool(messages.used or messages.added_new)


class AsyncLocaleMiddleware(_Light, LocaleMiddleware):
    """The language of the request."""


class AsyncCommonMiddleware(_Light, CommonMiddleware):
    """Hosts, and addresses without their slash; an unknown host is told with its setting."""

    def process_request(  # type: ignore[override]  # Django's own answers only with redirects
        self, request: HttpRequest
    ) -> HttpResponseBase | None:
        """Return the answer that refuses a host or leads to another address."""
        if request.path_info.endswith("/") and not _ENDS_IN_SLASH.match(request.path_info):
            # Nobody is led elsewhere for it: a redirect would lose the body of a POST.
            request.path_info = request.path_info.rstrip("/")
            request.path = request.path.rstrip("/")
        try:
            return super().process_request(request)
        except DisallowedHost as error:
            failure = map_error(request, error) or map_status(request, 400)
            return render_failure(request, failure)


class ContentSecurityMiddleware(_Light):
    """The policy of pages that have none of their own; pages for developers have no policy."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """Return the page with its policy; what is no page passes."""
        is_page = response.get("Content-Type", "").startswith("text/html")
        if is_page and not (settings.DEBUG and response.status_code >= 400):
            response.headers.setdefault("Content-Security-Policy", POLICY)
        return response


class LoginThrottleMiddleware(_Light):
    """Tells who must wait so in one sentence, whichever door they try; keeps browsers known."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """Return the refusal of a locked door, else the answer as it is."""
        if getattr(request, "axes_locked_out", False):
            return locked_response(request)
        if name := getattr(request, "login_name", ""):
            remember_browser(request, response, name)
        return response


class AsyncAuthenticationMiddleware(_Light, AuthenticationMiddleware):
    """Who is signed in, looked up only when somebody asks."""


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # WhiteNoise has no types
    """WhiteNoise itself is sync: it would hold a thread for each request until its answer begins,
    and stand between a client that leaves and the view that should hear of it."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        super().__init__(get_response)
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """Return the file of an address, else what comes after this."""
        found: Any = super().__call__(request)
        return _awaited(found) if iscoroutinefunction(self) else found


async def _awaited(found: Any) -> HttpResponseBase:
    response: HttpResponseBase = await found if isawaitable(found) else found
    return response


class JsonCompression(_Light, GZipMiddleware):
    """Gzip for the JSON of the APIs: never of pages, which hold tokens, nor of streams.

    An attacker who makes a browser ask learns nothing from lengths: keys do not come by
    themselves, and what a cookie opens here holds no token (BREACH).
    """

    def waits(self, request: HttpRequest, response: HttpResponseBase) -> bool:
        """Return whether there is so much that the event loop would stand still."""
        return self._is_meant(request, response) and len(response.content) > _LARGE  # type: ignore[attr-defined]

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """Return the answer, packed where the client takes that and it pays."""
        if not self._is_meant(request, response):
            return response
        packed: HttpResponseBase = super().process_response(request, response)
        return packed

    def _is_meant(self, request: HttpRequest, response: HttpResponseBase) -> bool:
        kind = response.get("Content-Type", "")
        return form_of(request) is not None and not response.streaming and "json" in kind


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


class ApiEnvelope(_Light):
    """Rate-limit headers, and JSON for errors that are none yet; what is no API's passes."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """Return the answer in the form of its API."""
        form = form_of(request)
        if form is None:
            return response
        if request.method == "OPTIONS" and response.status_code == 405:
            told = HttpResponse(status=204)
            told["Allow"] = ", ".join(sorted({"OPTIONS", *response["Allow"].split(", ")}))
            return told
        if request.method == "HEAD" and response.streaming:
            # A stream would go on for nobody.
            response.close()
            response = HttpResponse(status=response.status_code, headers=dict(response.items()))
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

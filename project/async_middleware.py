"""Async variants of Django's middleware and of WhiteNoise's, which run on the event loop.

They read headers and cookies and wait for nothing, so no thread is needed; only changed sessions
and messages are written on one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.common import CommonMiddleware
from django.middleware.locale import LocaleMiddleware
from django.utils.deprecation import MiddlewareMixin
from whitenoise.middleware import WhiteNoiseMiddleware


class _Light(MiddlewareMixin):
    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        early = self.process_request(request) if hasattr(self, "process_request") else None
        after: Any = self.get_response
        response: HttpResponseBase = early or await after(request)
        if not hasattr(self, "process_response"):
            return response
        if self.writes(request):
            response = await sync_to_async(self.process_response)(request, response)
        else:
            response = self.process_response(request, response)
        return response

    def writes(self, request: HttpRequest) -> bool:
        """Return whether the answer is held up by something to write."""
        return False


class AsyncSessionMiddleware(_Light, SessionMiddleware):
    """Sessions; a changed one is written on a thread."""

    def writes(self, request: HttpRequest) -> bool:
        """Return whether the session was changed."""
        return bool(request.session.modified)


class AsyncMessageMiddleware(_Light, MessageMiddleware):
    """Messages for the next page; those that were read or added are written on a thread."""

    def writes(self, request: HttpRequest) -> bool:
        """Return whether messages were read or added."""
        response = request._messages  # type: ignore[attr-defined]
        return bool(response.used or response.added_new)


class AsyncLocaleMiddleware(_Light, LocaleMiddleware):
    """The language of the request."""


class AsyncCommonMiddleware(_Light, CommonMiddleware):
    """Hosts, and addresses without their slash."""


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

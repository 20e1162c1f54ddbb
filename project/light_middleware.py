"""Django's own middleware without changes of threads. In: requests. Out: what Django makes of them.

Where the server is async, Django sends each hook to another thread. These read headers and cookies
and wait for nothing, so they run where the request is: eight changes fewer before it is answered.
"""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.common import CommonMiddleware
from django.middleware.locale import LocaleMiddleware
from django.utils.deprecation import MiddlewareMixin


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


class Sessions(_Light, SessionMiddleware):
    """Sessions; a changed one is written on a thread."""

    def writes(self, request: HttpRequest) -> bool:
        """Return whether the session was changed."""
        return bool(request.session.modified)


class Messages(_Light, MessageMiddleware):
    """Messages for the next page; those that were read or added are written on a thread."""

    def writes(self, request: HttpRequest) -> bool:
        """Return whether messages were read or added."""
        told = request._messages  # type: ignore[attr-defined]
        return bool(told.used or told.added_new)


class Locale(_Light, LocaleMiddleware):
    """The language of the request."""


class Common(_Light, CommonMiddleware):
    """Hosts, and addresses without their slash."""


class Authentication(_Light, AuthenticationMiddleware):
    """Who is signed in, looked up only when somebody asks."""

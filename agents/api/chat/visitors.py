"""Visitors of a widget: authentication by its public key and a secret of their browser.

Only the addresses that name these classes take it, each for the widget's own agent; everywhere
else the header opens nothing.
"""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlsplit

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication

from agents.chat.agents.widgets import find_widget, visitor_scope
from rag.api.http.authentication import CallerAuthentication, authenticate
from rag.core.errors import ForbiddenError, NotFoundError
from rag.services.access import Caller, count_failed_call, count_visitor_call

HEADER = "X-Citable-Visitor"


def authenticate_visitor(request: HttpRequest) -> Caller | None:
    """Return the caller that a visitor's header stands for, with the call counted; else None.

    Raises LimitError for too many calls of one address, ForbiddenError for a call from another
    site's page, NotFoundError for another agent than the widget's.
    """
    key, _, secret = request.headers.get(HEADER, "").partition(":")
    if not key:
        return None
    address = request.META.get("REMOTE_ADDR", "")
    _check_origin(request)
    try:
        widget = find_widget(key=key)
        scope = visitor_scope(widget=widget, secret=secret)
    except (NotFoundError, ForbiddenError) as refusal:
        cast(Any, request).rag_refusal = refusal
        count_failed_call(address=address).check()
        return None
    limit = count_visitor_call(
        widget_id=widget.pk, address=address, limit=widget.requests_per_minute
    )
    cast(Any, request).rag_quota = limit
    limit.check()
    _check_agent(request, widget.agent.name)
    return Caller(AnonymousUser(), scope, frozenset({"read"}))


def authenticate_anybody(request: HttpRequest) -> Caller | None:
    """Return a visitor, or whom every address knows: a key, somebody signed in; else None.

    One function, for each takes a thread of its own.
    """
    return authenticate_visitor(request) or authenticate(request, "key", "session")


def _check_origin(request: HttpRequest) -> None:
    """Refuse what a script of another site sends: the chat is our own page, in a frame or not."""
    origin = request.headers.get("Origin", "")
    if origin and urlsplit(origin).netloc.lower() != request.get_host().lower():
        raise ForbiddenError(
            "Pages of {origin} may not call with a widget's key.",
            hint="Put the widget's script on the page; its chat runs in a frame of its own.",
            origin=origin[:200],
        )


def _check_agent(request: HttpRequest, name: str) -> None:
    match = request.resolver_match
    given = match.kwargs if match is not None else {}
    asked = given.get("name", given.get("pk") if "/api/agents/" in request.path else None)
    if asked is not None and asked != name:
        raise NotFoundError("There is no agent “{name}”.", name=asked)


class VisitorAuthentication(BaseAuthentication):  # type: ignore[misc]  # DRF has no types
    """A visitor of a widget; stands before ``CallerAuthentication``."""

    def authenticate(self, request: Any) -> tuple[Any, Caller] | None:
        """Return user and caller, None for everybody else."""
        caller = authenticate_visitor(request._request)
        return None if caller is None else (caller.user, caller)

    def authenticate_header(self, request: Any) -> str:
        """Return what makes a refusal a 401."""
        return "Bearer"


class _VisitorScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the schema names a visitor's header."""

    target_class = VisitorAuthentication
    name = "visitor"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """Return the header."""
        about = "A widget's public key, a colon and 64 hexadecimal digits that the browser keeps."
        return {"type": "apiKey", "in": "header", "name": HEADER, "description": about}


# Of the addresses that visitors may call; the first that knows a caller is asked.
VISITOR_OR_CALLER = (VisitorAuthentication, CallerAuthentication)

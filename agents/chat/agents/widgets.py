"""Widgets: found by their public key, and what an administrator enters, checked and normalized."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import urlsplit

from django.contrib.auth.models import Group

from agents import models
from agents.chat.agents.agent import find_agent
from agents.runtime.scopes import may_change_anything, widget_scope
from rag.core.access import Scope
from rag.core.errors import ForbiddenError, InvalidInputError, NotFoundError

_SECRET = re.compile(r"[0-9a-f]{64}")
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?|\[[0-9a-f:.]+\](:\d{1,5})?")
_USUAL_PORTS = {"http": ":80", "https": ":443"}


def find_widget(*, key: str) -> models.Widget:
    """Return a widget whose agent may be asked by its visitors; NotFoundError alike for others."""
    rows = models.Widget.objects.select_related("agent", "group")
    widget = rows.filter(key=key.replace("\0", ""), is_enabled=True).first()
    if widget is None:
        raise NotFoundError(
            "There is no widget with this key.",
            hint="Copy the line from its page in the admin; it may have been switched off.",
        )
    return widget


def visitor_scope(*, widget: models.Widget, secret: str) -> Scope:
    """Return what a visitor may see, who is known again by the secret that their browser made.

    Raises ForbiddenError for a secret that could be guessed.
    """
    if not _SECRET.fullmatch(secret):
        raise ForbiddenError(
            "The visitor's secret is not 64 hexadecimal digits.", hint="Reload the page."
        )
    digest = hashlib.sha256(f"{widget.key}:{secret}".encode()).hexdigest()
    return widget_scope(widget=widget, digest=digest)


def check_widget(*, agent: models.Agent, group: Group | None) -> None:
    """Raise unless visitors may ask the agent, and the group only reads.

    Raises InvalidInputError, or what ``find_agent`` raises for one that is switched off.
    """
    if group is not None and may_change_anything(group):
        raise InvalidInputError(
            "Members of “{name}” may change stores, agents or flows.",
            hint="Choose a group that only reads.",
            name=group.name,
        )
    try:
        find_agent(
            name=agent.name, scope=widget_scope(widget=models.Widget(group=group), digest="")
        )
    except NotFoundError:
        raise InvalidInputError(
            "Visitors may not ask the agent “{name}”.",
            hint="Make it public, or choose a group among its reader groups.",
            name=agent.name,
        ) from None


def parse_origin(text: str) -> str:
    """Return an origin as browsers write it: scheme, host and port; raise InvalidInputError."""
    origin = text.strip().removesuffix("/")
    try:
        parts = urlsplit(origin)
        host = parts.netloc.encode("idna").decode().lower()
    except ValueError:  # UnicodeError is one
        parts, host = urlsplit(""), ""
    scheme = parts.scheme.lower()
    rest = parts.path + parts.query + parts.fragment
    if scheme not in _USUAL_PORTS or rest or not _HOST.fullmatch(host):
        raise InvalidInputError(
            "“{origin}” is no origin.",
            hint="Write scheme and host, such as https://www.example.com.",
            origin=origin[:100],
        )
    return f"{scheme}://{host.removesuffix(_USUAL_PORTS[scheme])}"

"""Messages by their key. In: who asks. Out: the row, if it is their own."""

from __future__ import annotations

import uuid

from agents import models
from rag.core.access import Scope
from rag.core.errors import NotFoundError


def message_called(*, key: str, scope: Scope) -> models.Message:
    """Return one's own message by its key; raise NotFoundError."""
    found = models.Message.objects.readable(scope).select_related("session__agent", "parent")
    message = found.filter(key=key).first() if is_key(key) else None
    if message is None:
        raise NotFoundError("There is no message “{key}”.", key=key)
    return message


def is_key(text: str) -> bool:
    """Return whether a text is a key at all."""
    try:
        return bool(uuid.UUID(text))
    except ValueError:
        return False

"""Message look-up by key, and the branch of a session as it is displayed."""

from __future__ import annotations

from dataclasses import dataclass

from agents import models
from agents.runtime.scopes import is_uuid
from rag.core.access import Scope
from rag.core.errors import NotFoundError


def find_message(*, key: str, scope: Scope) -> models.Message:
    """Return one's own message by its key; raise NotFoundError."""
    found = models.Message.objects.readable(scope).select_related("session__agent", "parent")
    message = found.filter(key=key).first() if is_uuid(key) else None
    if message is None:
        raise NotFoundError("There is no message “{key}”.", key=key)
    return message


MAX_TURNS = 200


@dataclass(frozen=True, slots=True)
class PathTurn:
    """One message of the branch that a session goes on with, and all that share its place."""

    message: models.Message
    alternatives: tuple[str, ...] = ()


def session_path(
    *, session: models.Session, until: str = "", limit: int = MAX_TURNS
) -> list[PathTurn]:
    """Return the last ``limit`` messages up to where the session goes on, with their alternatives.

    ``until`` is the key of another message to end with, such as the parent of the first one of a
    later page; NotFoundError when the session has none of it.
    """
    last = session.head_id
    if until:
        last = session.messages.filter(key=until).values_list("pk", flat=True).first()
        if last is None:
            raise NotFoundError("There is no message “{key}”.", key=until)
    if last is None:
        return []
    path = list(session.messages.branch(last, limit).select_related("parent", "session"))
    places: dict[int | None, list[str]] = {}
    followed = [row.parent_id for row in path if row.parent_id is not None]
    beside = session.messages.filter(parent_id__in=followed)
    if len(followed) < len(path):
        beside |= session.messages.filter(parent_id=None)
    for parent_id, key in beside.order_by("pk").values_list("parent_id", "key"):
        places.setdefault(parent_id, []).append(str(key))
    return [PathTurn(row, tuple(places[row.parent_id])) for row in path]

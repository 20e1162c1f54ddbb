"""A conversation as it is read. In: a session. Out: its turns, up to where it goes on."""

from __future__ import annotations

from dataclasses import dataclass

from agents import models


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the branch that a session goes on with, and all that share its place."""

    message: models.Message
    alternatives: tuple[str, ...] = ()


def session_path(*, session: models.Session) -> list[Turn]:
    """Return the messages from the first to where the session goes on, with their alternatives."""
    rows = list(session.messages.select_related("parent").order_by("pk"))
    by_id = {row.pk: row for row in rows}
    places: dict[int | None, list[str]] = {}
    for row in rows:
        places.setdefault(row.parent_id, []).append(str(row.key))
    path: list[Turn] = []
    at = session.head_id
    while at is not None and at in by_id:
        row = by_id[at]
        path.append(Turn(row, tuple(places[row.parent_id])))
        at = row.parent_id
    return path[::-1]

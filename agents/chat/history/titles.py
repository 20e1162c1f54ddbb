"""Titles of sessions: the first question, or what a model made of the first answer.

A model's title is shown while everything that its answer rests on may be read; else the first
question stands in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import QuerySet

from agents import models
from agents.runtime.scopes import readable_chunks
from rag.core.access import Scope

MAX_TITLE = 60


def title_of_question(text: str) -> str:
    """Return a first question as a title."""
    title = " ".join(text.split())
    return title if len(title) <= MAX_TITLE else f"{title[:MAX_TITLE]}…"


def retitle(*, session: models.Session) -> None:
    """Give a session its first question as its title, in place of a model's."""
    session.title, session.titled_by = _first_question(session), models.Session.TitledBy.RULE
    session.titled_after = None
    session.save(update_fields=["title", "titled_by", "titled_after"])


def hidden_titles(*, sessions: Sequence[models.Session], scope: Scope) -> dict[int, str]:
    """Return the first question of each session whose title ``scope`` may not read, by ``pk``."""
    made = {one.pk: one.titled_after.chunk_ids for one in sessions if one.titled_after is not None}
    readable = readable_chunks((pk for ids in made.values() for pk in ids), scope)
    return {
        one.pk: _first_question(one)
        for one in sessions
        if not readable.issuperset(made.get(one.pk, ()))
    }


def titled(*, rows: QuerySet[models.Session], part: str, scope: Scope) -> QuerySet[models.Session]:
    """Return the sessions whose title, as ``scope`` is shown it, has a part."""
    found = rows.filter(title__icontains=part)
    made = list(found.exclude(titled_after=None).select_related("titled_after"))
    hidden = hidden_titles(sessions=made, scope=scope)
    return found.exclude(pk__in=hidden)


def _first_question(session: models.Session) -> str:
    first = session.messages.filter(parent=None).order_by("pk").values_list("content", flat=True)
    return title_of_question(first.first() or "")

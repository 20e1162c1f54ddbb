"""What the owner of a conversation may read now. In: a session. Out: a scope."""

from __future__ import annotations

from dataclasses import replace

from agents import models
from rag.core.access import Scope
from rag.services.access import scope_of


def owner_scope(*, session: models.Session) -> Scope:
    """Return the rights, as they are now, of the one person who may read a session."""
    ids = session.only_store_ids
    return replace(scope_of(session.user), only_store_ids=None if ids is None else frozenset(ids))

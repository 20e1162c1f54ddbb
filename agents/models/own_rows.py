"""Ownership rule: a condition on rows of the caller; operators too see their own only."""

from __future__ import annotations

from django.db.models import Q

from rag.core.access import Scope


def own_rows(scope: Scope, prefix: str = "") -> Q:
    """Return the condition: one's own rows, nobody else's, operators' neither.

    A key for some stores sees what came about with such a key.
    """
    if scope.user_id is None:
        return Q(pk__in=[])
    mine = Q(**{f"{prefix}user_id": scope.user_id})
    if scope.only_store_ids is None:
        return mine
    return mine & Q(**{f"{prefix}only_store_ids": sorted(scope.only_store_ids)})


def own_sessions(scope: Scope, prefix: str = "") -> Q:
    """Return the condition on sessions: ``own_rows``, or those of a visitor's own browser."""
    visitor = scope.visitor
    if visitor is None:
        return own_rows(scope, prefix)
    place = {"user": None, "widget_id": visitor.widget_id, "visitor": visitor.digest}
    return Q(**{f"{prefix}{name}": value for name, value in place.items()})

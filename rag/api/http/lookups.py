"""Row lookups: a store by id or name within a Scope, and the check that it may be changed."""

from __future__ import annotations

from django.db.models import Model, QuerySet

from rag import models
from rag.core.access import Scope
from rag.core.errors import ForbiddenError, NotFoundError
from rag.services.stores import find_stores

_MAX_DIGITS = 18


def find_store(name: str, scope: Scope) -> models.Store:
    """Return the readable store of this id, slug, name or resource name; digits mean an id."""
    if name.isascii() and name.isdigit():
        readable = models.Store.objects.readable(scope).select_related("space", "owner")
        found = readable.filter(pk=int(name)).first() if len(name) <= _MAX_DIGITS else None
        if found is None:
            raise NotFoundError("There is no store “{name}”.", name=name)
        return found
    return find_stores(names=[name], scope=scope)[0]


def require_editable(row: Model, editable: QuerySet[Model]) -> None:
    """Raise ForbiddenError when ``row``, which the caller may read, is not in ``editable``."""
    if not editable.filter(pk=row.pk).exists():
        raise ForbiddenError("You may read “{name}”, not change it.", name=str(row))

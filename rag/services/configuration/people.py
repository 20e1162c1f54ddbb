"""Groups and owners by their names, within what a Scope may hand out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from rag.core.access import Scope
from rag.core.errors import ForbiddenError, NotFoundError, UnknownNameError


def group_names(groups: Any) -> list[str]:
    """Return the names of a row's groups, in order."""
    return sorted(group.name for group in groups.all())


def named_groups(names: Sequence[str], scope: Scope) -> list[Group]:
    """Return groups; UnknownNameError for one that is not there or, for others, not one's own."""
    every = Group.objects.all()
    known = every if scope.is_operator else every.filter(pk__in=scope.group_ids)
    found = {group.name: group for group in known.filter(name__in=names)}
    for name in names:
        if name not in found:
            raise UnknownNameError("group", name, list(known.values_list("name", flat=True)[:100]))
    return list(found.values())


def named_owner(name: str | None, scope: Scope) -> Any:
    """Return the user of a name, None for none; ForbiddenError unless an operator says so."""
    user: Any = get_user_model()
    found = user._default_manager.filter(**{user.USERNAME_FIELD: name}).first() if name else None
    if name and found is None:
        raise NotFoundError("There is no user “{name}”.", name=name)
    if not scope.is_operator and (found is None or found.pk != scope.user_id):
        raise ForbiddenError("Only operators give rows to others.", hint="Leave out “owner”.")
    return found

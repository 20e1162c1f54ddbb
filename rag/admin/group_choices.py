"""Which groups a person may choose from, without taking away those that are set already."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Model, Q
from django.http import HttpRequest

from rag.admin.scoped import scope_for


def limit_groups(field: Any, request: HttpRequest, through: type[Model]) -> Any:
    """Return a group field limited to the user's own groups and the row's present ones.

    Whoever may see groups anyhow chooses from all. ``through`` joins the row to its groups.
    """
    scope = scope_for(request)
    if scope.is_operator or request.user.has_perm("auth.view_group"):
        return field
    source = next(f.name for f in through._meta.fields if f.name not in ("id", "group"))
    match = request.resolver_match
    row_id = str((match.kwargs.get("object_id") if match else None) or "")
    present = through._default_manager.filter(**{source: int(row_id) if row_id.isdigit() else 0})
    field.queryset = Group.objects.filter(
        Q(pk__in=scope.group_ids) | Q(pk__in=present.values("group"))
    )
    return field

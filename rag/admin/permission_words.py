"""Permissions in the reader's language. In: a field of a form. Out: it, with names in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import Permission
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin as _ModelAdmin

    _Admin = _ModelAdmin[Any]
else:
    _Admin = object

DEEDS = {
    "add": _("can add"), "change": _("can change"), "delete": _("can delete"),
    "view": _("can see"),
}  # fmt: skip


class PermissionWords(_Admin):
    """A ModelAdmin that offers permissions by words: their names are rows, in English alone."""

    def formfield_for_manytomany(self, db_field: Any, request: Any = None, **kwargs: Any) -> Any:
        """Return the field; of permissions with their names in words."""
        field: Any = super().formfield_for_manytomany(db_field, request, **kwargs)
        if db_field.related_model is Permission and field is not None:
            field.label_from_instance = permission_words
        return field


def permission_words(permission: Permission) -> str:
    """Return of what the permission is, and what it lets somebody do."""
    deed = permission.codename.partition("_")[0]
    return f"{permission.content_type} | {DEEDS.get(deed, permission.name)}"

"""Group field: a select of groups with search, limited to those that the user may know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.admin import site
from django.contrib.admin.widgets import AutocompleteSelect, get_select2_language
from django.contrib.auth.models import Group
from django.db.models import Model, Q
from django.http import HttpRequest

from rag.admin.ui.scoped import scope_for

if TYPE_CHECKING:
    from django.forms import SelectMultiple
else:
    from unfold.widgets import UnfoldAdminSelect2MultipleWidget as SelectMultiple


class GroupSelect(SelectMultiple):
    """A Select2 widget for groups in the reader's language."""

    @property
    def media(self) -> forms.Media:
        """Return the scripts of Django's own choices, and Unfold's that begins this one.

        Unfold loads its own copy of Select2, which would discard the translations of the first.
        """
        language = get_select2_language()
        self.attrs["data-language"] = language or "en"
        media = AutocompleteSelect(Group._meta.get_field("permissions"), site).media
        return media + forms.Media(js=["admin/js/jquery.init.js", "unfold/js/select2.init.js"])


def limit_groups(field: Any, request: HttpRequest, db_field: Any) -> Any:
    """Return a group field limited to the user's own groups and the row's present ones.

    Whoever may see groups anyhow chooses from all.
    """
    # Unfold's class for a plain multiple select and Django's help text on using one are replaced.
    field.widget.attrs["class"] = "unfold-admin-autocomplete admin-autocomplete"
    field.help_text = db_field.help_text
    through: type[Model] = db_field.remote_field.through
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

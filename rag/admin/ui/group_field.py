"""Group fields limited to the groups that the user may know, and admins of owned rows."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin import site
from django.contrib.admin.widgets import AutocompleteSelect, get_select2_language
from django.contrib.auth.models import Group
from django.db.models import Model, Q
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from rag.admin.ui.cells import column, label
from rag.admin.ui.scoped import ScopedAdmin, scope_for
from rag.admin.ui.theme import IS_UNFOLD, SelectMultiple


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
        if not IS_UNFOLD:
            return media
        return media + forms.Media(js=["admin/js/jquery.init.js", "unfold/js/select2.init.js"])


class GroupFieldAdmin(ScopedAdmin):
    """A ScopedAdmin whose group fields offer the user's own groups and the row's present ones.

    Whoever may see groups anyhow chooses from all.
    """

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Return a select with search; of groups with those that this user may know."""
        field: Any = super().formfield_for_manytomany(
            db_field, request, **{**kwargs, "widget": GroupSelect()}
        )
        if IS_UNFOLD:
            # Its class for a plain multiple select and Django's help text on it are replaced.
            field.widget.attrs["class"] = "unfold-admin-autocomplete admin-autocomplete"
        field.help_text = db_field.help_text
        return _limit_groups(field, request, db_field)


class OwnedAdmin(GroupFieldAdmin):
    """A GroupFieldAdmin for rows with an owner, whom only operators change, and a public flag."""

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields that this user may not set."""
        return [*self.readonly_fields, *([] if scope_for(request).is_operator else ["owner"])]

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Return the defaults: a new row belongs to its creator."""
        return {"owner": request.user.pk, **super().get_changeform_initial_data(request)}

    visibility = column(
        _("access"),
        lambda row: label(_("public"), "warn") if row.is_public else label(_("restricted"), "idle"),
    )


def _limit_groups(field: Any, request: HttpRequest, db_field: Any) -> Any:
    through: type[Model] = db_field.remote_field.through
    scope = scope_for(request)
    is_free = scope.is_operator or request.user.has_perm("auth.view_group")
    if is_free or db_field.related_model is not Group:
        return field
    source = next(f.name for f in through._meta.fields if f.name not in ("id", "group"))
    match = request.resolver_match
    row_id = str((match.kwargs.get("object_id") if match else None) or "")
    present = through._default_manager.filter(**{source: int(row_id) if row_id.isdigit() else 0})
    field.queryset = Group.objects.filter(
        Q(pk__in=scope.group_ids) | Q(pk__in=present.values("group"))
    )
    return field

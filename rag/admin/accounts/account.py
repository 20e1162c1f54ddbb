"""Users and groups in the desk's dress, without a way to give oneself more rights.

Permissions in the reader's language. In: a field of a form. Out: it, with names in words.
Which groups a person may choose from, without taking away those that are set already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.admin import site
from django.contrib.admin.widgets import AutocompleteSelect, get_select2_language
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from rag import models
from rag.admin.ui.scoped import StorableChangeList, scope_for
from rag.admin.ui.unique_form import SameMoment

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin as _ModelAdmin

    _Admin = _ModelAdmin[Any]
else:
    _Admin = object

DEEDS = {
    "add": _("can add"),
    "change": _("can change"),
    "delete": _("can delete"),
    "view": _("can see"),
}


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


if TYPE_CHECKING:
    from django.contrib.auth.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

    class _Users(DjangoUserAdmin[User]):
        pass

    class _Groups(DjangoGroupAdmin):
        pass
else:
    from unfold.admin import ModelAdmin
    from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

    class _Users(DjangoUserAdmin, ModelAdmin):
        pass

    class _Groups(DjangoGroupAdmin, ModelAdmin):
        pass


admin.site.unregister(User)
admin.site.unregister(Group)

RIGHTS = ("is_superuser", "groups", "user_permissions")


@admin.register(User)
class UserAdmin(SameMoment, PermissionWords, _Users):
    """Accounts; only a superuser hands out rights or touches another superuser."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "first_name", "last_name", "is_active", "is_staff", "is_superuser")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[StorableChangeList]:
        """Return the list that refuses what cannot be looked for."""
        return StorableChangeList

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields that would raise somebody's rights, unless a superuser asks."""
        fields = super().get_readonly_fields(request, obj)
        return fields if request.user.is_superuser else [*fields, "is_staff", *RIGHTS]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether the permission is there and no superuser is touched from below."""
        return super().has_change_permission(request, obj) and _is_below(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether the permission is there and no superuser is touched from below."""
        return super().has_delete_permission(request, obj) and _is_below(request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Describe a deletion; superusers are protected from below."""
        shown, counts, needed, protected = super().get_deleted_objects(objs, request)
        above = [str(user) for user in objs if not _is_below(request, user)]
        return shown, counts, needed, [*protected, *above]


@admin.register(Group)
class GroupAdmin(SameMoment, PermissionWords, _Groups):
    """Groups; one that restricts files cannot go, or everybody would read them."""

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[StorableChangeList]:
        """Return the list that refuses what cannot be looked for."""
        return StorableChangeList

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether a superuser asks: a group's permissions are rights to hand out."""
        return super().has_change_permission(request, obj) and bool(request.user.is_superuser)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return whether a superuser asks."""
        return super().has_add_permission(request) and bool(request.user.is_superuser)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Describe a deletion; groups that restrict files are protected."""
        shown, counts, needed, protected = super().get_deleted_objects(objs, request)
        held = _restricting(objs)
        return shown, counts, needed, [*protected, *(_held(group, n) for group, n in held)]


def _is_below(request: HttpRequest, user: Any) -> bool:
    is_above = isinstance(user, User) and user.is_superuser
    return bool(request.user.is_superuser) or not is_above


def _held(group: Group, n: int) -> str:
    text = ngettext(
        "“{group}” restricts {n} file: change that first.",
        "“{group}” restricts {n} files: change those first.",
        n,
    )
    return text.format(group=group, n=n)


def _restricting(groups: QuerySet[Group] | list[Group]) -> list[tuple[Group, int]]:
    counts = [(group, models.File.objects.filter(restricted_to=group).count()) for group in groups]
    return [(group, n) for group, n in counts if n]


if TYPE_CHECKING:
    from django.forms import SelectMultiple
else:
    from unfold.widgets import UnfoldAdminSelect2MultipleWidget as SelectMultiple


class GroupSelect(SelectMultiple):
    """A field for many groups with a search, speaking the reader's language."""

    @property
    def media(self) -> forms.Media:
        """Return the scripts of Django's own choices, and Unfold's that begins this one.

        Unfold names another copy of the library, and the second one forgets the words that the
        first was taught.
        """
        language = get_select2_language()
        self.attrs["data-language"] = language or "en"
        media = AutocompleteSelect(Group._meta.get_field("permissions"), site).media
        return media + forms.Media(js=["admin/js/jquery.init.js", "unfold/js/select2.init.js"])


def limit_groups(field: Any, request: HttpRequest, db_field: Any) -> Any:
    """Return a group field limited to the user's own groups and the row's present ones.

    Whoever may see groups anyhow chooses from all.
    """
    # The admin dresses every field for many rows as a plain list, and says how to use one.
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

"""User and group admin: labels of permissions, and no way to raise one's own rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from rag import models
from rag.admin.ui.scoped import HardenedAdmin

PERMISSION_LABELS = {
    "add": _("can add"),
    "change": _("can change"),
    "delete": _("can delete"),
    "view": _("can see"),
}


class PermissionLabels(HardenedAdmin):
    """A ModelAdmin with translated permission labels: Django stores their names in English."""

    def formfield_for_manytomany(self, db_field: Any, request: Any = None, **kwargs: Any) -> Any:
        """Return the field; of permissions with their names in words."""
        field: Any = super().formfield_for_manytomany(db_field, request, **kwargs)
        if db_field.related_model is Permission and field is not None:
            field.label_from_instance = permission_label
        return field


def permission_label(permission: Permission) -> str:
    """Return the model and the action of a permission, translated."""
    verb = permission.codename.partition("_")[0]
    return f"{permission.content_type} | {PERMISSION_LABELS.get(verb, permission.name)}"


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
class UserAdmin(PermissionLabels, _Users):
    """Accounts; only a superuser hands out rights or touches another superuser."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "first_name", "last_name", "is_active", "is_staff", "is_superuser")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields that would raise somebody's rights, unless a superuser asks."""
        fields = super().get_readonly_fields(request, obj)
        return fields if request.user.is_superuser else [*fields, "is_staff", *RIGHTS]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and _may_manage(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_manage(request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Describe a deletion; superusers are protected from below."""
        shown, counts, needed, protected = super().get_deleted_objects(objs, request)
        above = [str(user) for user in objs if not _may_manage(request, user)]
        return shown, counts, needed, [*protected, *above]


@admin.register(Group)
class GroupAdmin(PermissionLabels, _Groups):
    """Groups; one that restricts files cannot be deleted, or everybody would read them."""

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether a superuser asks: a group's permissions are rights to hand out."""
        return super().has_change_permission(request, obj) and bool(request.user.is_superuser)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and bool(request.user.is_superuser)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Describe a deletion; groups that restrict files are protected."""
        shown, counts, needed, protected = super().get_deleted_objects(objs, request)
        in_use = _groups_in_use(objs)
        return shown, counts, needed, [*protected, *(_protected(group, n) for group, n in in_use)]


def _may_manage(request: HttpRequest, user: Any) -> bool:
    is_above = isinstance(user, User) and user.is_superuser
    return bool(request.user.is_superuser) or not is_above


def _protected(group: Group, n: int) -> str:
    text = ngettext(
        "“{group}” restricts {n} file: change that first.",
        "“{group}” restricts {n} files: change those first.",
        n,
    )
    return text.format(group=group, n=n)


def _groups_in_use(groups: QuerySet[Group] | list[Group]) -> list[tuple[Group, int]]:
    counts = [(group, models.File.objects.filter(restricted_to=group).count()) for group in groups]
    return [(group, n) for group, n in counts if n]

"""Admin theme: base classes and widgets of django-unfold, or of Django itself without it.

The one place that knows which of the two a project has installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList as _ChangeList
from django.contrib.auth.mixins import PermissionRequiredMixin

IS_UNFOLD = apps.is_installed("unfold")


class PlainAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's own cannot be subscripted
    """Django's ModelAdmin with unfold's places for a template above, in and below a page."""

    change_form_template = "admin/rag/plain_form.html"
    change_list_template = "admin/rag/plain_list.html"

    class Media:
        css = {"all": ("rag/admin/plain.css", "rag/admin/desk.css")}


class PlainPage(PermissionRequiredMixin):
    """A view within the layout of Django's admin, as unfold has it."""

    model_admin: Any = None
    title: Any = ""

    def __init__(self, model_admin: Any, **kwargs: Any) -> None:
        self.model_admin = model_admin
        super().__init__(**kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the context with what the admin's templates show."""
        site = self.model_admin.admin_site
        request = self.request  # type: ignore[attr-defined]
        request.current_app = site.name
        shown = {"title": self.title, "model_admin": self.model_admin}
        told: dict[str, Any] = super().get_context_data(  # type: ignore[misc]
            **kwargs, **site.each_context(request), **shown
        )
        return told


if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
    TabularInline = admin.TabularInline[Any, Any]
    ChangeList = _ChangeList
    PageMixin = PermissionRequiredMixin
if TYPE_CHECKING or not IS_UNFOLD:
    from django.contrib.admin.widgets import AdminIntegerFieldWidget as IntegerInput
    from django.contrib.admin.widgets import AdminRadioSelect as RadioSelect
    from django.contrib.admin.widgets import AdminTextareaWidget as ExpandableTextarea
    from django.contrib.admin.widgets import AdminTextareaWidget as Textarea
    from django.contrib.admin.widgets import AdminTextInputWidget as TextInput
    from django.forms import CheckboxInput as Switch
    from django.forms import (
        CheckboxSelectMultiple,
        ColorInput,
        NullBooleanSelect,
        Select,
        SelectMultiple,
    )
else:
    from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget as CheckboxSelectMultiple
    from unfold.widgets import UnfoldAdminColorInputWidget as ColorInput
    from unfold.widgets import UnfoldAdminExpandableTextareaWidget as ExpandableTextarea
    from unfold.widgets import UnfoldAdminIntegerFieldWidget as IntegerInput
    from unfold.widgets import UnfoldAdminNullBooleanSelectWidget as NullBooleanSelect
    from unfold.widgets import UnfoldAdminRadioSelectWidget as RadioSelect
    from unfold.widgets import UnfoldAdminSelect2MultipleWidget as SelectMultiple
    from unfold.widgets import UnfoldAdminSelectWidget as Select
    from unfold.widgets import UnfoldAdminTextareaWidget as Textarea
    from unfold.widgets import UnfoldAdminTextInputWidget as TextInput
    from unfold.widgets import UnfoldBooleanSwitchWidget as Switch
if not TYPE_CHECKING:
    if IS_UNFOLD:
        from unfold.admin import ModelAdmin, TabularInline
        from unfold.views import ChangeList
        from unfold.views import UnfoldModelAdminViewMixin as PageMixin
    else:
        ModelAdmin, TabularInline = PlainAdmin, admin.TabularInline
        ChangeList, PageMixin = _ChangeList, PlainPage

__all__ = [
    "ChangeList",
    "CheckboxSelectMultiple",
    "ColorInput",
    "ExpandableTextarea",
    "IntegerInput",
    "ModelAdmin",
    "NullBooleanSelect",
    "PageMixin",
    "RadioSelect",
    "Select",
    "SelectMultiple",
    "Switch",
    "TabularInline",
    "TextInput",
    "Textarea",
]

"""A page of our own inside the admin, dressed as the rest of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.views.generic import TemplateView

if TYPE_CHECKING:
    from django.contrib.auth.mixins import PermissionRequiredMixin

    class DeskPage(PermissionRequiredMixin, TemplateView):
        """A page of one of our admins, with its permissions and title."""

        model_admin: Any
        title: Any
else:
    from unfold.views import UnfoldModelAdminViewMixin

    class DeskPage(UnfoldModelAdminViewMixin, TemplateView):
        """A page of one of our admins, with its permissions and title."""

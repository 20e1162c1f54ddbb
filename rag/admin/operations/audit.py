"""Audit log in the admin: who changed what, with labels for kinds and columns; read-only."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.core.exceptions import FieldDoesNotExist
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from rag import models
from rag.admin.ui.cells import column, text_block
from rag.admin.ui.filters import FieldFilter
from rag.admin.ui.scoped import ReadOnlyAdmin
from rag.core.access import Scope

AUDIT_KINDS = (
    gettext_noop("store"),
    gettext_noop("store readers"),
    gettext_noop("store editors"),
    gettext_noop("file"),
    gettext_noop("file restriction"),
    gettext_noop("deleted passage"),
    gettext_noop("chunk"),
    gettext_noop("key"),
    gettext_noop("key stores"),
    gettext_noop("budget"),
    gettext_noop("space"),
    gettext_noop("reindex run"),
    gettext_noop("agent"),
    gettext_noop("agent stores"),
    gettext_noop("agent readers"),
    gettext_noop("agent editors"),
    gettext_noop("flow"),
    gettext_noop("flow runners"),
    gettext_noop("flow editors"),
    gettext_noop("flow version"),
    gettext_noop("widget"),
    gettext_noop("webhook"),
    gettext_noop("user"),
    gettext_noop("user groups"),
    gettext_noop("user rights"),
    gettext_noop("group"),
    gettext_noop("group rights"),
    gettext_noop("audit"),
)
# Where a kind is not called as its model.
_MODELS = {"key": "apikey", "space": "embeddingspace"}


def column_label(kind: str, column: str) -> str:
    """Return the verbose name of an audited column; the column itself if it has none."""
    name = column.removesuffix("_id")
    model = _models().get(_MODELS.get(kind, kind.replace(" ", "")))
    try:
        found = model._meta.get_field(name) if model else _models()[name]._meta
    except (FieldDoesNotExist, KeyError):
        return column
    return str(found.verbose_name)


@cache
def _models() -> dict[str, Any]:
    return {str(model._meta.model_name): model for model in apps.get_models()}


class AuditKindFilter(FieldFilter):
    """By what was changed."""

    title = _("kind")
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Return all kinds: the table is not asked which of them it has."""
        return [(kind, models.AuditEntry(kind=kind).what) for kind in AUDIT_KINDS]


@admin.register(models.AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    """All changes for superusers; others see those of stores that they may edit."""

    list_display = ("at", "action", "what", "label", "changed", "who", "edge", "address")
    list_filter = ("action", AuditKindFilter, "edge", "at")
    search_fields = ("label", "username", "request", "command")
    search_help_text = _("Part of a name or user, a request's id, or a command.")
    sortable_by = ("at",)
    date_hierarchy = None
    fields = (
        "at",
        "action",
        "what",
        "object_id",
        "label",
        "store_id",
        "was",
        "is_now",
        "edge",
        "username",
        "user_id",
        "key_id",
        "address",
        "request",
        "command",
    )
    readonly_fields = ("what", "was", "is_now")

    class Media:
        css = {"all": ("rag/admin/insight.css",)}

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        if scope.is_operator:
            return queryset
        stores = models.Store.objects.editable(scope).values("pk")
        return queryset.filter(store_id__in=stores)

    what = column(_("kind"), lambda row: row.what)

    @admin.display(description=_("changed"))
    def changed(self, row: models.AuditEntry) -> str:
        """Return the names of the fields that differ."""
        names = sorted({*row.before, *row.after})
        return Truncator(", ".join(column_label(row.kind, name) for name in names)).chars(80)

    who = column(_("user"), lambda row: row.username or row.command or "–")
    was = column(_("before"), lambda row: _pretty(row.before))
    is_now = column(_("after"), lambda row: _pretty(row.after))


def _pretty(values: dict[str, Any]) -> SafeString:
    text = json.dumps(values, ensure_ascii=False, indent=2, sort_keys=True)
    return text_block(text)

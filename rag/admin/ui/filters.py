"""List filters by store and file, whose choices stay within the Scope; by fields; by conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.admin import SimpleListFilter
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import scope_for

MAX_CHOICES = 200


class StoreListFilter(SimpleListFilter):
    """By store: the readable ones."""

    title = _("store")
    parameter_name = "store"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[Any, str]]:
        """Return the readable stores, the first 200 by name."""
        stores = models.Store.objects.readable(scope_for(request))
        return list(stores.order_by("name").values_list("pk", "name")[:MAX_CHOICES])

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return _by_id(queryset, "store_id", self.value())


class FileListFilter(SimpleListFilter):
    """By file: set by links only, since a list of all files would be endless."""

    title = _("file")
    parameter_name = "file"

    def has_output(self) -> bool:
        """Return whether a file was asked for; a foreign one filters everything out."""
        return bool(self.value())

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[Any, str]]:
        """Return the file that was chosen, if the caller may read it."""
        if not (chosen := parse_int(request.GET.get("file"))):
            return []
        files = models.File.objects.readable(scope_for(request)).filter(pk=chosen)
        return list(files.values_list("pk", "name"))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() and not self.lookup_choices:
            return queryset.none()
        return _by_id(queryset, "file_id", self.value())


class FieldFilter(SimpleListFilter):
    """By a field that is called like the parameter; ``lookups`` says which values are offered."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = {str(self.parameter_name): self.value()}
        return queryset.filter(**chosen) if self.value() else queryset


class ConditionFilter(SimpleListFilter):
    """By named conditions: what each is called, and which rows it holds for."""

    conditions: Mapping[str, tuple[Any, Q]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(name, text) for name, (text, _condition) in self.conditions.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.conditions.get(self.value() or "")
        return queryset.filter(chosen[1]) if chosen else queryset


def _by_id(queryset: QuerySet[Any], field: str, value: str | None) -> QuerySet[Any]:
    return queryset.filter(**{field: parse_int(value)}) if value else queryset

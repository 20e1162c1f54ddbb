"""List filters by store, file, kind and hits, whose choices stay within the caller's Scope."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import SimpleListFilter
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import scope_for
from rag.core.documents import KINDS

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
        """Return the rows of the chosen store."""
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
        """Return the rows of the chosen file."""
        if self.value() and not self.lookup_choices:
            return queryset.none()
        return _by_id(queryset, "file_id", self.value())


class FileKindFilter(SimpleListFilter):
    """By kind of document."""

    title = _("kind")
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[Any, str]]:
        """Return the kinds that we read."""
        return [(kind, kind) for kind in KINDS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return files of the chosen kind."""
        return queryset.filter(kind=self.value()) if self.value() else queryset


class HitsFilter(SimpleListFilter):
    """Queries by whether they found anything."""

    title = _("hits")
    parameter_name = "hits"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[Any, Any]]:
        """Return with and without."""
        return [("none", _("without a hit")), ("some", _("with hits"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the queries of the choice."""
        if self.value() == "none":
            return queryset.filter(chunk_ids=[])
        return queryset.exclude(chunk_ids=[]) if self.value() == "some" else queryset


def _by_id(queryset: QuerySet[Any], field: str, value: str | None) -> QuerySet[Any]:
    return queryset.filter(**{field: parse_int(value)}) if value else queryset

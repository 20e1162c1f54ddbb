"""List filters that offer nothing which the caller may not see."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import SimpleListFilter
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.scoped import scope_for
from rag.core.documents import KINDS

MAX_CHOICES = 200


class StoreFilter(SimpleListFilter):
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


class FileFilter(SimpleListFilter):
    """By file: set by links only, since a list of all files would be endless."""

    title = _("file")
    parameter_name = "file"

    def has_output(self) -> bool:
        """Return whether a file was asked for; a foreign one filters everything out."""
        return bool(self.value())

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[Any, str]]:
        """Return the file that was chosen, if the caller may read it."""
        chosen = str(request.GET.get("file", ""))
        if not chosen.isascii() or not chosen.isdigit():
            return []
        files = models.File.objects.readable(scope_for(request)).filter(pk=int(chosen[:18]))
        return list(files.values_list("pk", "name"))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows of the chosen file."""
        if self.value() and not self.lookup_choices:
            return queryset.none()
        return _by_id(queryset, "file_id", self.value())


class KindFilter(SimpleListFilter):
    """By kind of document."""

    title = _("kind")
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[Any, str]]:
        """Return the kinds that we read."""
        return [(kind, kind) for kind in KINDS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return files of the chosen kind."""
        return queryset.filter(kind=self.value()) if self.value() else queryset


class LiveFilter(SimpleListFilter):
    """Chunks of the files' current revisions, unless one asks for those before."""

    title = _("revision")
    parameter_name = "live"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[Any, Any]]:
        """Return the choices beside the current revision."""
        return [("no", _("replaced, kept for citations"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return live chunks, or those that a newer revision replaced."""
        return queryset.filter(is_live=self.value() != "no")


class TouchedFilter(SimpleListFilter):
    """Chunks that people edited, added or switched off: few, and found by an index of their own."""

    title = _("changed by people")
    parameter_name = "touched"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[Any, Any]]:
        """Return what people can do to a chunk."""
        origins = models.Chunk.Origin
        edited, added = (origins.EDITED, origins.EDITED.label), (origins.ADDED, origins.ADDED.label)
        return [edited, added, ("off", _("switched off"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the chunks of the choice."""
        touched = queryset.filter(~Q(origin=models.Chunk.Origin.PARSED) | Q(enabled=False))
        if self.value() == "off":
            return touched.filter(enabled=False)
        return touched.filter(origin=self.value()) if self.value() else queryset


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
    if not value:
        return queryset
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        return queryset.none()
    return queryset.filter(**{field: int(value)})

"""List filters of chunks: which revision, and what people did to them."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import SimpleListFilter
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from rag import models


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

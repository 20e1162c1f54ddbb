"""Embedding spaces in the admin: model and dimension, with the stores that use them; read-only."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, Exists, OuterRef, QuerySet, Sum
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.ui.cells import column
from rag.admin.ui.scoped import ReadOnlyAdmin
from rag.core.access import Scope


@admin.register(models.EmbeddingSpace)
class EmbeddingSpaceAdmin(ReadOnlyAdmin):
    """The spaces of readable stores."""

    list_display = ("model", "dim", "version", "state", "n_stores", "n_chunks", "created_at")
    sortable_by = ()

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        if scope.is_operator:
            return queryset
        stores = models.Store.objects.readable(scope).filter(space=OuterRef("pk"))
        return queryset.filter(Exists(stores))

    def complete_rows(self, rows: list[Any]) -> None:
        """Count the stores and chunks of each space."""
        stores = models.Store.objects.filter(space__in=rows).order_by().values("space")
        counts = {row["space"]: row for row in stores.annotate(n=Count("pk"), sum=Sum("n_chunks"))}
        for row in rows:
            row.counts = counts.get(row.pk, {"n": 0, "sum": 0})

    n_stores = column(_("stores"), lambda space: int(space.counts["n"]))
    n_chunks = column(_("chunks"), lambda space: int(space.counts["sum"]))

"""Filters of the query log: what went wrong with a question."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import SimpleListFilter
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from rag.admin.filters import StoreFilter
from rag.services.query_figures import GOOD

_BAD = ("altered", "wrong_document", "unknown")


class QualityFilter(SimpleListFilter):
    """Queries that deserve a look."""

    title = _("quality")
    parameter_name = "quality"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Return what can be wrong, and nothing."""
        return [
            ("low", _("best hit is doubtful")), ("citation", _("bad citation")),
            ("uncited", _("answer without citation")), ("good", _("good hit")),
        ]  # fmt: skip

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the queries of the choice."""
        wrong = Q()
        for verdict in _BAD:
            wrong |= Q(citations__contains=[{"verdict": verdict}])
        choices = {
            "low": Q(confidence__lt=GOOD), "good": Q(confidence__gte=GOOD), "citation": wrong,
            "uncited": Q(kind="ask", citations=[]),
        }  # fmt: skip
        chosen = choices.get(self.value() or "")
        return queryset if chosen is None else queryset.filter(chosen)


class AskedStoreFilter(StoreFilter):
    """By store that was asked."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the queries to the chosen store."""
        value = self.value() or ""
        if not value:
            return queryset
        if not value.isascii() or not value.isdigit() or len(value) > 18:
            return queryset.none()
        return queryset.filter(store_ids__contains=[int(value)])

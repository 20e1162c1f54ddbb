"""The query log: what was asked of the stores that one looks after."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.cells import label
from rag.admin.filters import HitsFilter
from rag.admin.scoped import ReadOnlyAdmin
from rag.core.access import Scope


@admin.register(models.QueryLog)
class QueryLogAdmin(ReadOnlyAdmin):
    """Own questions, and all questions to stores that one may edit."""

    list_display = ("question", "kind", "mode", "hits", "score", "ms", "user", "created_at")
    list_select_related = ("user",)
    list_filter = ("kind", HitsFilter)
    search_fields = ("query",)
    sortable_by = ("created_at",)
    fields = (
        "query", "kind", "user", "created_at", "mode", "top_k", "settings_hash", "hits", "score",
        "times", "whole_answer",
    )  # fmt: skip
    readonly_fields = ("hits", "score", "times", "whole_answer")

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        """Return rows whose stores are all readable, and editable unless oneself had asked."""
        if scope.is_operator:
            return queryset
        stores = models.Store.objects
        editable = list(stores.editable(scope).values_list("pk", flat=True))
        readable = list(stores.readable(scope).values_list("pk", flat=True))
        own = Q(user_id=scope.user_id, store_ids__contained_by=readable)
        return queryset.exclude(store_ids=[]).filter(own | Q(store_ids__contained_by=editable))

    @admin.display(description=_("query"))
    def question(self, row: models.QueryLog) -> str:
        """Return the beginning of the query."""
        return Truncator(row.query).chars(100)

    @admin.display(description=_("hits"))
    def hits(self, row: models.QueryLog) -> Any:
        """Return how many chunks were found; none is marked."""
        return len(row.chunk_ids) or label("0", "bad")

    @admin.display(description=_("best score"))
    def score(self, row: models.QueryLog) -> str:
        """Return the fused score of the first hit."""
        return "–" if row.best_score is None else f"{row.best_score:.3f}"

    @admin.display(description=_("time in ms"))
    def ms(self, row: models.QueryLog) -> str:
        """Return the time of the whole search."""
        return f"{float(row.timings_ms.get('total', 0)):.1f}"

    @admin.display(description=_("times in ms"))
    def times(self, row: models.QueryLog) -> SafeString:
        """Return the time of each step."""
        return format_html_join(" · ", "{} {}", row.timings_ms.items())

    @admin.display(description=_("answer"))
    def whole_answer(self, row: models.QueryLog) -> SafeString:
        """Return the answer as it was given."""
        return format_html('<pre class="desk-text">{}</pre>', row.answer or "–")

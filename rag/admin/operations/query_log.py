"""Query log in the admin: quality filters, the trace of a query, golden questions made from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from rag import models
from rag.admin.stores.hit_test import STEP_LABELS
from rag.admin.stores.settings_form import MODE_LABELS
from rag.admin.ui.cells import column, label, pages_text, text_block
from rag.admin.ui.filters import ConditionFilter, StoreListFilter
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import OverviewAdmin, ReadOnlyAdmin, scope_for
from rag.core.access import Scope
from rag.core.errors import RAGError
from rag.core.types import VERIFIED
from rag.models.file import LARGE_FILE_FIELDS
from rag.services.evaluation import TargetSpec, save_question
from rag.services.operations import GOOD, visible_queries

_BAD_CITATION = (
    Q(citations__contains=[{"verdict": "altered"}])
    | Q(citations__contains=[{"verdict": "wrong_document"}])
    | Q(citations__contains=[{"verdict": "unknown"}])
)


class HitsFilter(ConditionFilter):
    """By whether anything was found."""

    title = _("hits")
    parameter_name = "hits"
    conditions = {
        "none": (_("without a hit"), Q(chunk_ids=[])),
        "some": (_("with hits"), ~Q(chunk_ids=[])),
    }


class QualityFilter(ConditionFilter):
    """By quality: doubtful hits, bad or missing citations."""

    title = _("quality")
    parameter_name = "quality"
    conditions = {
        "low": (_("best hit is doubtful"), Q(confidence__lt=GOOD)),
        "citation": (_("bad citation"), _BAD_CITATION),
        "uncited": (_("answer without citation"), Q(kind="ask", citations=[])),
        "good": (_("good match"), Q(confidence__gte=GOOD)),
    }


class AskedStoreFilter(StoreListFilter):
    """By store that was asked."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        store_id = [parse_int(self.value())]
        return queryset.filter(store_ids__contains=store_id) if self.value() else queryset


PREVIEW = 400
VERDICT_LABELS = {
    "verified": (_("verified"), "good"),
    "abridged": (_("abridged"), "good"),
    "altered": (_("altered"), "warn"),
    "wrong_document": (_("wrong document"), "bad"),
    "unknown": (_("not found"), "bad"),
}


def query_trace(row: models.QueryLog, scope: Scope) -> dict[str, Any]:
    """Return hits that ``scope`` may read now, citations with their verdicts, and times.

    A chunk that is gone, or may not be read any more, keeps its place without a text.
    """
    chunks = models.Chunk.objects.readable(scope).filter(pk__in=row.chunk_ids)
    light = chunks.select_related("file").defer(*LARGE_FILE_FIELDS)
    known = {chunk.pk: chunk for chunk in light}
    stores = models.Store.objects.readable(scope).filter(pk__in=row.store_ids)
    names = dict(
        models.File.objects.readable(scope)
        .filter(pk__in={one["file_id"] for one in row.citations if one.get("file_id")})
        .values_list("pk", "name")
    )
    longest = max((float(ms) for name, ms in row.timings_ms.items() if name != "total"), default=0)
    return {
        "row": row,
        "stores": list(stores.order_by("name").values("pk", "name")),
        "hits": [_hit_row(rank, pk, known.get(pk)) for rank, pk in enumerate(row.chunk_ids, 1)],
        "citations": [
            {
                **one,
                "label": label(
                    *VERDICT_LABELS.get(one.get("verdict"), (one.get("verdict"), "idle"))
                ),
                "may_read": one.get("file_id") in names,
                "file_name": one.get("file_name") or names.get(one.get("file_id"), ""),
            }
            for one in row.citations
        ],
        "times": [
            {
                "name": STEP_LABELS.get(name, name),
                "ms": float(ms),
                "share": 100 * float(ms) / longest if longest else 0,
            }
            for name, ms in row.timings_ms.items()
        ],
        "is_cached": "cache" in row.timings_ms and "sql" not in row.timings_ms,
    }


def _hit_row(rank: int, pk: int, chunk: models.Chunk | None) -> dict[str, Any]:
    return {
        "rank": rank,
        "chunk": chunk,
        "pk": pk,
        "pages": pages_text(chunk.page_first, chunk.page_last) if chunk else "",
        "start": chunk.text[:PREVIEW] if chunk else "",
    }


@admin.register(models.QueryLog)
class QueryLogAdmin(ReadOnlyAdmin, OverviewAdmin):
    """Own questions, and all questions to stores that one may edit."""

    list_display = (
        "question",
        "kind",
        "mode_label",
        "hits",
        "confidence_label",
        "cited",
        "ms",
        "user",
        "created_at",
    )
    list_select_related = ("user",)
    list_filter = ("kind", HitsFilter, QualityFilter, AskedStoreFilter)
    search_fields = ("query",)
    sortable_by = ("created_at",)
    fields = (
        "query",
        "kind",
        "user",
        "created_at",
        "mode_label",
        "top_k",
        "searched_by",
        "hits",
        "score",
        "confidence_label",
        "whole_answer",
    )
    readonly_fields = (
        "mode_label",
        "searched_by",
        "hits",
        "score",
        "confidence_label",
        "whole_answer",
    )
    change_form_outer_before_template = "admin/rag/query_trace.html"

    class Media:
        css = {"all": ("rag/admin/insight.css",)}

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        """Return rows whose stores are all readable, and editable unless oneself had asked."""
        return visible_queries(scope=scope, rows=queryset)

    def pages(self) -> Sequence[tuple[str, Any, str]]:
        return (("<int:pk>/golden/", require_POST(self.golden_view), "rag_querylog_golden"),)

    def overview(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        may_expect = request.user.has_perm("rag.add_goldenquestion")
        return {**query_trace(obj, scope_for(request)), "may_expect": may_expect}

    def golden_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Make a golden question of a logged one: the posted chunk must be found for it.

        Without a chunk the answer was bad, and a person says on the question's page what to expect.
        """
        may_add = request.user.has_perm("rag.add_goldenquestion")
        if not self.has_view_permission(request) or not may_add:
            raise PermissionDenied
        row = get_object_or_404(self.get_queryset(request), pk=pk)
        scope, origins = scope_for(request), models.GoldenQuestion.Origin
        facts = {"note": row.answer[:2000], "created_by": request.user}
        wanted: list[TargetSpec] = []
        store: models.Store | None
        if "chunk" in request.POST:
            chunks = models.Chunk.objects.readable(scope).filter(store__in=row.store_ids)
            chunk_id = parse_int(request.POST["chunk"])
            chunk = get_object_or_404(chunks.select_related("store"), pk=chunk_id)
            store, wanted = chunk.store, [TargetSpec(chunk_id=chunk.pk)]
            facts["origin"] = origins.CORRECTED if row.answer else origins.PLAYGROUND
        else:
            store = models.Store.objects.editable(scope).filter(pk__in=row.store_ids).first()
            facts["origin"] = origins.DISLIKED
            if store is None:
                raise PermissionDenied
        try:
            question, _new = save_question(
                scope=scope, store=store, query=row.query, wanted=wanted, facts=facts
            )
        except RAGError as error:
            self.message_user(request, error_sentence(error), messages.ERROR)
            return HttpResponseRedirect(reverse("admin:rag_querylog_change", args=[pk]))
        if not wanted:
            url = reverse("admin:rag_goldenquestion_change", args=[question.pk])
            self.message_user(request, gettext("Say what should have been found."), messages.INFO)
            return HttpResponseRedirect(url)
        text = gettext("Kept as a golden question: this chunk must be found.")
        self.message_user(request, text, messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:rag_querylog_change", args=[pk]))

    question = column(_("query"), lambda row: Truncator(row.query).chars(100))
    mode_label = column(_("mode"), lambda row: MODE_LABELS.get(row.mode, row.mode) or "–")
    searched_by = column(_("settings' hash"), lambda row: row.settings_hash or "–")
    hits = column(_("hits"), lambda row: len(row.chunk_ids) or label("0", "bad"))
    score = column(
        _("best score"), lambda row: "–" if row.best_score is None else f"{row.best_score:.3f}"
    )

    @admin.display(description=_("confidence"))
    def confidence_label(self, row: models.QueryLog) -> SafeString | str:
        """Return the confidence, marked if low."""
        if row.confidence is None:
            return "–"
        return label(f"{row.confidence:.2f}", "good" if row.confidence >= GOOD else "warn")

    @admin.display(description=_("citations"))
    def cited(self, row: models.QueryLog) -> SafeString | str:
        """Return how many of the citations stand word for word in their sources."""
        if not row.answer and not row.citations:
            return "–"
        n_good = sum(one.get("verdict") in VERIFIED for one in row.citations)
        is_good = bool(row.citations) and n_good == len(row.citations)
        return label(f"{n_good}/{len(row.citations)}", "good" if is_good else "warn")

    ms = column(_("time in ms"), lambda row: f"{float(row.timings_ms.get('total', 0)):.1f}")
    whole_answer = column(_("answer"), lambda row: text_block(row.answer or "–"))

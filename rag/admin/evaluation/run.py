"""Evaluation runs in the admin: metrics over time, results by question, start and cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from rag import models
from rag.admin.evaluation.pages import CompareRunsPage, EvaluationProgressView, run_state_label
from rag.admin.ui.cells import column, label
from rag.admin.ui.charts import line_chart
from rag.admin.ui.filters import StoreListFilter
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import OverviewAdmin, ReadOnlyAdmin, ScopedAdmin, row_ids, scope_for
from rag.core.errors import ForbiddenError, RAGError
from rag.evals.metrics import MAIN_MEASURE
from rag.services.evaluation import cancel_evaluation, start_evaluation

N_IN_CHART = 60
MAX_SHOWN = 300


@admin.register(models.EvaluationRun)
class EvaluationRunAdmin(ReadOnlyAdmin, OverviewAdmin):
    """Runs over the stores that one may edit."""

    list_display = (
        "run",
        "store",
        "state_label",
        "ndcg",
        "recall",
        "mrr",
        "n_questions",
        "model",
        "created_at",
    )
    list_select_related = ("store",)
    list_filter = (StoreListFilter, "state")
    search_fields = ("label", "model", "settings_hash")
    sortable_by = ()
    actions = ("cancel",)
    fields = (
        "store",
        "label",
        "state_label",
        "created_at",
        "created_by",
        "n_questions",
        "n_lost",
        "model",
        "space",
        "chat_model",
        "settings_hash",
        "settings",
        "took_ms",
    )
    readonly_fields = ("state_label",)
    list_before_template = "admin/rag/run_chart.html"
    change_form_outer_before_template = "admin/rag/run_overview.html"

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return ScopedAdmin.has_delete_permission(self, request, obj)

    def has_start_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may start runs, and cancel them."""
        return request.user.has_perm("rag.add_evaluationrun")

    def pages(self) -> Sequence[tuple[str, Any, str]]:
        return (
            ("run/<int:pk>/", require_POST(self.run_view), "rag_evaluationrun_run"),
            ("<int:pk>/progress/", EvaluationProgressView, "rag_evaluationrun_progress"),
            ("<int:pk>/compare/", CompareRunsPage, "rag_evaluationrun_compare"),
        )

    def run_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Start an evaluation of a store by a worker and show its progress."""
        scope = scope_for(request)
        store = get_object_or_404(models.Store.objects.readable(scope), pk=pk)
        if not self.has_start_permission(request):
            raise PermissionDenied
        back = reverse("admin:rag_store_change", args=[pk])
        try:
            run = start_evaluation(scope=scope, store=store, facts={"created_by": request.user})
        except ForbiddenError as error:
            raise PermissionDenied from error
        except RAGError as error:
            self.message_user(request, error_sentence(error), messages.ERROR)
            return HttpResponseRedirect(back)
        if not request.user.has_perm("rag.view_evaluationrun"):
            return HttpResponseRedirect(back)
        return HttpResponseRedirect(reverse("admin:rag_evaluationrun_change", args=[run.pk]))

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list; for one store with a chart of its metrics over time."""
        store_id = parse_int(request.GET.get("store"))
        extra_context = dict(extra_context or {})
        if store_id and self.has_view_permission(request):
            rows = self.get_queryset(request).filter(store=store_id, state="done").order_by("-pk")
            extra_context["chart"] = _metrics_chart(list(rows[:N_IN_CHART])[::-1])
        return super().changelist_view(request, extra_context)

    def overview(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Return metrics, results by question, and the runs to compare with."""
        others = models.EvaluationRun.objects.done().filter(store=obj.store_id).exclude(pk=obj.pk)
        results = sorted(obj.results.all(), key=lambda row: (row.metrics[MAIN_MEASURE], row.pk))
        return {
            "run": obj,
            "is_busy": obj.state in models.EvaluationRun.BUSY,
            "error": error_sentence(obj.error),
            "figures": sorted(obj.metrics.items()),
            "results": results[:MAX_SHOWN],
            "before": others.filter(pk__lt=obj.pk).order_by("-pk").first(),
            "others": list(others.order_by("-pk").values("pk", "label", "created_at")[:50]),
        }

    @admin.action(description=_("Stop the run"), permissions=["start"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Stop the chosen runs that are under way."""
        n = cancel_evaluation(scope=scope_for(request), run_ids=row_ids(queryset))
        text = ngettext("%(n)d run was stopped.", "%(n)d runs were stopped.", n) % {"n": n}
        self.message_user(request, text, messages.SUCCESS if n else messages.WARNING)

    state_label = column(_("state"), lambda run: run_state_label(run))
    run = column(_("run"), lambda row: f"{row.pk} {row.label}".strip())

    @admin.display(description="nDCG@10")
    def ndcg(self, row: models.EvaluationRun) -> SafeString:
        """Return nDCG@10, the main metric."""
        if MAIN_MEASURE not in row.metrics:
            return SafeString("–")
        value = float(row.metrics[MAIN_MEASURE])
        return label(f"{value:.3f}", "good" if value >= 0.8 else "warn" if value >= 0.5 else "bad")

    recall = column("R@5", lambda row: _metric(row, "R@5"))
    mrr = column("MRR@10", lambda row: _metric(row, "MRR@10"))


def _metric(run: models.EvaluationRun, name: str) -> str:
    return f"{float(run.metrics[name]):.3f}" if name in run.metrics else "–"


def _metrics_chart(runs: list[models.EvaluationRun]) -> dict[str, Any]:
    labels = [f"{timezone.localtime(run.created_at):%m-%d %H:%M}" for run in runs]
    series = {
        name: [run.metrics.get(name) for run in runs] for name in (MAIN_MEASURE, "R@10", "MRR@10")
    }
    return line_chart(_("Figures over time"), labels, series, top=1.0)

"""Evaluation views: progress as JSON, and the comparison of two runs."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.ui.admin_page import ObjectPage
from rag.admin.ui.cells import state_label
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import scope_for
from rag.core.errors import RAGError
from rag.services.evaluation import cancel_evaluation, compare_runs


def run_state_label(run: models.EvaluationRun) -> SafeString:
    """Return a run's state as a badge, with its progress while it runs."""
    state = state_label(run)
    if run.state != models.EvaluationRun.State.RUNNING:
        return state
    return format_html(
        '{} <span class="desk-note">{} / {}</span>', state, run.n_done, run.n_questions
    )


class EvaluationProgressView(ObjectPage):
    """Progress of a run as JSON for its page's script; POST cancels it."""

    permission_required = ("rag.view_evaluationrun",)

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Return state, questions asked and questions in all."""
        run = self.row
        return JsonResponse(
            {
                "is_busy": run.state in models.EvaluationRun.BUSY,
                "state": run_state_label(run),
                "n_done": run.n_done,
                "n_questions": run.n_questions,
            }
        )

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.has_perm("rag.add_evaluationrun"):
            raise PermissionDenied
        cancel_evaluation(scope=scope_for(request), run_ids=[self.row.pk])
        return HttpResponseRedirect(reverse("admin:rag_evaluationrun_change", args=[self.row.pk]))


class CompareRunsPage(ObjectPage):
    """A run and the one of ``?before=``."""

    template_name = "admin/rag/run_diff.html"
    permission_required = ("rag.view_evaluationrun",)
    title = _("Two runs")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        runs = self.model_admin.get_queryset(self.request)
        before = runs.filter(pk=parse_int(self.request.GET.get("before"))).first()
        if before is None:
            raise Http404
        context: dict[str, Any] = {"before": before, "after": self.row}
        try:
            comparison = compare_runs(before=before, after=self.row)
        except RAGError as error:
            context["error"] = error_sentence(error)
        else:
            context |= {
                "comparison": comparison,
                "changed": [one for one in comparison.questions if one.difference],
                "settings": _changed_settings(before, self.row),
            }
        return super().get_context_data(**kwargs, **context)


def _changed_settings(
    before: models.EvaluationRun, after: models.EvaluationRun
) -> list[tuple[str, Any, Any]]:
    names = sorted({*before.settings, *after.settings})
    rows = [("model", before.model, after.model)]
    rows += [(name, before.settings.get(name), after.settings.get(name)) for name in names]
    return [row for row in rows if row[1] != row[2]]

"""Two evaluation runs against each other: each measure with its p-value, each changed question."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.asked import asked_number
from rag.admin.row_page import RowPage
from rag.admin.sentences import error_sentence
from rag.core.errors import RAGError
from rag.services.compare_runs import compare_runs


class RunDiff(RowPage):
    """A run and the one of ``?before=``."""

    template_name = "admin/rag/run_diff.html"
    permission_required = ("rag.view_evaluationrun",)
    title = _("Two runs")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return both runs with what changed."""
        runs = self.model_admin.get_queryset(self.request)
        before = runs.filter(pk=asked_number(self.request.GET.get("before"))).first()
        if before is None:
            raise Http404
        context: dict[str, Any] = {"before": before, "after": self.row}
        try:
            told = compare_runs(before=before, after=self.row)
        except RAGError as error:
            context["error"] = error_sentence(error)
        else:
            context |= {
                "told": told,
                "changed": [one for one in told.questions if one.difference],
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

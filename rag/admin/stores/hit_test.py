"""Hit test page of a store: hits by one or two settings, query analysis, scores and timings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils.translation import gettext, gettext_lazy
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.stores.settings_form import MODE_LABELS, SettingsForm, settings_or_default
from rag.admin.ui.admin_page import StorePage
from rag.admin.ui.cells import pages_text
from rag.admin.ui.highlight import split_matches
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import scope_for
from rag.core.analysis import QueryAnalysis
from rag.core.errors import RAGError
from rag.core.hits import Hit
from rag.core.types import RetrievalSettings
from rag.services.evaluation import HitTest, TargetSpec, run_hit_test, save_question
from rag.services.stores import update_store

STEP_LABELS = {
    "access": gettext_lazy("access"),
    "analyze": gettext_lazy("query analysis"),
    "embed": gettext_lazy("embedding the query"),
    "sql": gettext_lazy("database"),
    "search": gettext_lazy("whole search"),
    "refine": gettext_lazy("post-processing"),
    "rerank": gettext_lazy("reranking"),
    "cache": gettext_lazy("cache"),
    "model": gettext_lazy("chat model"),
    "cite": gettext_lazy("checking citations"),
    "total": gettext_lazy("in all"),
}
ROUTE_LABELS = {
    "exact": gettext_lazy("compared one by one"),
    "hnsw": gettext_lazy("by the index"),
    "partial": gettext_lazy("by the store's own index"),
}
INTENT_LABELS = {
    "find_specific": gettext_lazy("find something named"),
    "lookup": gettext_lazy("look up"),
    "understand": gettext_lazy("understand"),
    "explore": gettext_lazy("explore"),
    "compare": gettext_lazy("compare"),
    "general": gettext_lazy("general"),
}
COMPLEXITY_LABELS = {
    "simple": gettext_lazy("simple"),
    "medium": gettext_lazy("medium"),
    "complex": gettext_lazy("complex"),
}

_FALLBACKS = {"nothing_found": gettext_lazy("nothing was found")}


def hit_test_context(trial: HitTest, *, others: Sequence[HitTest]) -> dict[str, Any]:
    """Return a result's template context: hits with highlights and ranks in ``others``, timings."""
    result = trial.result
    analysis = result.analysis or QueryAnalysis()
    found = {chunk_id for hit in result.hits for chunk_id in hit.chunk_ids}
    times = result.metadata["timings_ms"]
    return {
        "trial": trial,
        "result": result,
        "settings": trial.settings,
        "hits": [_hit_context(hit, trial, others) for hit in result.hits],
        "mode": MODE_LABELS.get(result.mode, result.mode),
        "times": [
            (STEP_LABELS.get(name, name), times[name]) for name in STEP_LABELS if name in times
        ],
        "route": ", ".join(
            str(ROUTE_LABELS.get(way, way)) for way in sorted(set(result.routes.values()))
        ),
        "intent": INTENT_LABELS.get(analysis.intent, analysis.intent),
        "complexity": COMPLEXITY_LABELS.get(analysis.complexity, analysis.complexity),
        "analysis": analysis,
        "metadata": result.metadata,
        "fallbacks": ", ".join(
            str(_FALLBACKS.get(reason, reason))
            for reason in result.metadata["fallback_reasons"].values()
        ),
        "missing": [
            one for one in trial.expected if one.chunk_ids is not None and not one.chunk_ids & found
        ],
    }


def _hit_context(hit: Hit, trial: HitTest, others: Sequence[HitTest]) -> dict[str, Any]:
    pieces = split_matches(hit.text, hit.matched_terms)
    matched = dict.fromkeys(piece.casefold() for piece, is_match in pieces if is_match)
    return {
        "hit": hit,
        "pages": pages_text(hit.page_first, hit.page_last),
        "pieces": pieces,
        # A term of the index is a stem; people know the word as it stands.
        "words": list(matched) or hit.matched_terms,
        "is_expected": any(
            hit.file_id == one.file_id
            if one.chunk_ids is None
            else not one.chunk_ids.isdisjoint(hit.chunk_ids)
            for one in trial.expected
        ),
        "elsewhere": _rank_elsewhere(others[0], hit) if others else "",
    }


def _rank_elsewhere(other: HitTest, hit: Hit) -> str:
    """Return the rank of a hit under the other settings, in words."""
    there = next((one for one in other.result.hits if one.chunk_id == hit.chunk_id), None)
    if there is None:
        return gettext("not there")
    if there.rank == hit.rank:
        return gettext("the same place")
    return gettext("there at %(n)d") % {"n": there.rank}


class QuestionForm(forms.Form):
    """The query of a hit test."""

    q = forms.CharField(label=_("Question or words"), max_length=4000, strip=True)


class HitTestPage(StorePage):
    """Runs a query with one or two settings; saves settings and golden questions."""

    template_name = "admin/rag/store_search.html"
    permission_required = ("rag.view_store", "rag.view_file", "rag.view_chunk")
    title = _("Hit test")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the forms and, for a query, the results."""
        asked = self.request.GET if "q" in self.request.GET else None
        own = settings_or_default(self.store.retrieval)
        is_two = self.request.GET.get("compare") == "1"
        question = QuestionForm(asked)
        forms_shown = [SettingsForm(asked, own=own)]
        if is_two:
            forms_shown.append(SettingsForm(asked, own=own, prefix="b"))
        context: dict[str, Any] = {
            "question": question,
            "form": forms_shown[0],
            "forms": forms_shown,
            "is_two": is_two,
            "store": self.store,
            "may_edit": self._may_edit(),
            "trials": [],
        }
        if asked is not None and all(form.is_valid() for form in (question, *forms_shown)):
            context |= self._results(question.cleaned_data["q"], forms_shown)
        return super().get_context_data(**kwargs, **context)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Save settings or a golden question and show the same query again."""
        if not self._may_edit():
            raise PermissionDenied
        try:
            if "save" in request.POST:
                self._save_settings(request)
            else:
                self._save_golden_question(request)
        except RAGError as error:
            messages.error(request, error_sentence(error))
        return HttpResponseRedirect(request.get_full_path())

    def _may_edit(self) -> bool:
        return (
            bool(self.model_admin.has_change_permission(self.request, self.store))
            and not self.store.is_remote
        )

    def _results(self, query: str, settings: list[SettingsForm]) -> dict[str, Any]:
        try:
            # The store's own settings may be broken past its form; that is said here.
            RetrievalSettings.from_dict(self.store.retrieval)
            of: Any = {"query": query, "scope": scope_for(self.request), "store": self.store}
            trials = [run_hit_test(**of, settings=form.settings()) for form in settings]
        except RAGError as error:
            return {"error": error_sentence(error)}
        shown = [
            hit_test_context(trial, others=[o for o in trials if o is not trial])
            for trial in trials
        ]
        return {"trials": shown, "result": trials[0].result, "hits": shown[0]["hits"]}

    def _save_settings(self, request: HttpRequest) -> None:
        own = settings_or_default(self.store.retrieval)
        prefix = "b" if request.POST.get("save") == "b" else None
        form = SettingsForm(request.GET, own=own, prefix=prefix)
        if not form.is_valid():
            messages.error(request, _("These settings cannot be kept."))
            return
        form.settings()
        values = {"retrieval": {**self.store.retrieval, **form.changes()}}
        update_store(scope=scope_for(request), store=self.store, values=values)
        messages.success(request, _("The store searches by these settings from now on."))

    def _save_golden_question(self, request: HttpRequest) -> None:
        if not request.user.has_perm("rag.add_goldenquestion"):
            raise PermissionDenied
        query = request.GET.get("q", "")
        wanted = TargetSpec(chunk_id=parse_int(request.POST.get("chunk")))
        save_question(
            scope=scope_for(request),
            store=self.store,
            query=query,
            wanted=[wanted],
            facts={
                "origin": models.GoldenQuestion.Origin.PLAYGROUND,
                "created_by": request.user,
            },
        )
        messages.success(request, _("Kept as a golden question: this chunk must be found."))

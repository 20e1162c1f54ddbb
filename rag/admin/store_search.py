"""The hit test of a store: what applications and models get, and all that led to it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.asked import asked_number
from rag.admin.row_page import StorePage
from rag.admin.scoped import scope_for
from rag.admin.sentences import error_sentence
from rag.admin.settings_form import SettingsForm, own_settings
from rag.admin.trial import shown_trial
from rag.core.errors import RAGError
from rag.core.types import RetrievalSettings
from rag.services.golden_questions import Wanted, save_question
from rag.services.playground import Trial, try_settings
from rag.services.update_store import update_store


class QuestionForm(forms.Form):
    """What is asked."""

    q = forms.CharField(label=_("Question or words"), max_length=4000, strip=True)


class StoreSearch(StorePage):
    """Asks a store by one or two settings; keeps settings and golden questions."""

    template_name = "admin/rag/store_search.html"
    permission_required = ("rag.view_store", "rag.view_file", "rag.view_chunk")
    title = _("Hit test")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the forms and, when something was asked, what was found."""
        asked = self.request.GET if "q" in self.request.GET else None
        own = own_settings(self.store.retrieval)
        is_two = self.request.GET.get("compare") == "1"
        question = QuestionForm(asked)
        forms_shown = [SettingsForm(asked, own=own)]
        if is_two:
            forms_shown.append(SettingsForm(asked, own=own, prefix="b"))
        context: dict[str, Any] = {
            "question": question, "form": forms_shown[0], "forms": forms_shown, "is_two": is_two,
            "store": self.store, "may_edit": self._may_edit(), "trials": [],
        }  # fmt: skip
        if asked is not None and all(form.is_valid() for form in (question, *forms_shown)):
            context |= self._tried(question.cleaned_data["q"], forms_shown)
        return super().get_context_data(**kwargs, **context)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Keep what was posted and show the same question again."""
        if not self._may_edit():
            raise PermissionDenied
        try:
            if "save" in request.POST:
                self._save_settings(request)
            else:
                self._expect(request)
        except RAGError as error:
            messages.error(request, error_sentence(error))
        return HttpResponseRedirect(request.get_full_path())

    def _may_edit(self) -> bool:
        return (
            bool(self.model_admin.has_change_permission(self.request, self.store))
            and not self.store.is_remote
        )

    def _tried(self, query: str, settings: list[SettingsForm]) -> dict[str, Any]:
        try:
            # The store's own settings may be broken past its form; that is said here.
            RetrievalSettings.from_dict(self.store.retrieval)
            trials = [self._try(query, form) for form in settings]
        except RAGError as error:
            return {"error": error_sentence(error)}
        shown = [shown_trial(trial, others=[o for o in trials if o is not trial])
                 for trial in trials]  # fmt: skip
        return {"trials": shown, "result": trials[0].retrieval.result, "hits": shown[0]["hits"]}

    def _try(self, query: str, form: SettingsForm) -> Trial:
        return try_settings(
            query=query, scope=scope_for(self.request), store=self.store, settings=form.settings()
        )

    def _save_settings(self, request: HttpRequest) -> None:
        own = own_settings(self.store.retrieval)
        prefix = "b" if request.POST.get("save") == "b" else None
        form = SettingsForm(request.GET, own=own, prefix=prefix)
        if not form.is_valid():
            messages.error(request, _("These settings cannot be kept."))
            return
        form.settings()
        values = {"retrieval": {**self.store.retrieval, **form.changes()}}
        update_store(scope=scope_for(request), store=self.store, values=values)
        messages.success(request, _("The store searches by these settings from now on."))

    def _expect(self, request: HttpRequest) -> None:
        if not request.user.has_perm("rag.add_goldenquestion"):
            raise PermissionDenied
        query = request.GET.get("q", "")
        wanted = Wanted(chunk_id=asked_number(request.POST.get("chunk")))
        save_question(
            scope=scope_for(request), store=self.store, query=query, wanted=[wanted],
            facts={
                "origin": models.GoldenQuestion.Origin.PLAYGROUND, "created_by": request.user,
            },
        )  # fmt: skip
        messages.success(request, _("Kept as a golden question: this chunk must be found."))

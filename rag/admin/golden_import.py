"""Golden questions from a CSV file: each line is taken or refused on its own, with the reason."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.desk_page import DeskPage
from rag.admin.scoped import scope_for
from rag.admin.sentences import error_sentence
from rag.core.errors import RAGError
from rag.services.golden_csv import MAX_BYTES, import_questions
from rag.services.golden_export import FIELDS


class CsvForm(forms.Form):
    """A store that one may change, and a file."""

    store = forms.ModelChoiceField(label=_("store"), queryset=models.Store.objects.none())
    file = forms.FileField(label=_("CSV file"))

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        stores = models.Store.objects.editable(scope_for(request))
        field: Any = self.fields["store"]
        field.queryset = stores.filter(backend=models.Store.Backend.LOCAL)


class GoldenImport(DeskPage):
    """Takes a CSV file and says what became of its lines."""

    template_name = "admin/rag/golden_import.html"
    permission_required = ("rag.view_goldenquestion", "rag.add_goldenquestion")
    title = _("Import golden questions")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the admin's context with the form."""
        context = {"columns": ", ".join(FIELDS), "form": CsvForm(request=self.request), **kwargs}
        return super().get_context_data(**context, opts=self.model_admin.opts)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Take the file."""
        form = CsvForm(request.POST, request.FILES, request=request)
        if not form.is_valid():
            return self.render_to_response(self.get_context_data(form=form))
        try:
            taken = import_questions(
                scope=scope_for(request), store=form.cleaned_data["store"],
                data=form.cleaned_data["file"].read(MAX_BYTES + 1), by=request.user,
            )  # fmt: skip
        except RAGError as error:
            told: dict[str, Any] = {"error": error_sentence(error)}
        else:
            problems = [(line, error_sentence(error)) for line, error in taken.problems]
            told = {"taken": taken, "problems": problems}
        return self.render_to_response(self.get_context_data(form=form, **told))

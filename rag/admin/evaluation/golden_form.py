"""Golden question forms: question, expected chunks or files with grades, and the CSV import page.

Whoever saves second is shown what changed meanwhile.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from rag import models
from rag.admin.ui.admin_page import AdminPage
from rag.admin.ui.conflict_form import ConflictCheckedForm, merge_inline_rows
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.scoped import local_stores, scope_for
from rag.core.errors import RAGError
from rag.services.evaluation import FIELDS, MAX_BYTES, import_questions


class GoldenQuestionForm(ConflictCheckedForm):
    """The question itself, whether it is measured, and the note."""


class GoldenTargetForm(ConflictCheckedForm):
    """A chunk, whose file is known, or a file of which any chunk counts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "file" in self.fields:
            self.fields["file"].required = False

    def clean(self) -> dict[str, Any] | None:
        """Return the values with the file of the chunk."""
        cleaned = super().clean() or self.cleaned_data
        chunk = cleaned.get("chunk")
        if chunk is not None:
            cleaned["file"] = chunk.file
            self.instance.file_id = chunk.file_id
        elif cleaned.get("file") is None and not self.errors:
            raise ValidationError(_("Choose a chunk or a file."))
        return cleaned

    def validate_unique(self) -> None:
        """Refuse what is expected already: Django asks no constraint that names the question."""
        super().validate_unique()
        try:
            self.instance.validate_constraints(exclude=set(self.errors))
        except ValidationError:
            self.add_error(None, _("This is expected already."))


class GoldenTargetFormSet(BaseInlineFormSet):  # type: ignore[type-arg]
    """The targets of one question: all of its own store."""

    def __init__(self, data: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(data, *args, **kwargs)
        self.n_came = self.n_gone = 0
        if self.is_bound and self.instance.pk:
            rows = list(self.get_queryset())
            found = merge_inline_rows(self.data, str(self.prefix), rows)
            self.data, self.n_came, self.n_gone = found

    def clean(self) -> None:
        """Refuse what another store holds, the same one twice, and a list of before."""
        super().clean()
        if self.n_came or self.n_gone:
            text = _(
                "Meanwhile somebody added passages (%(came)d) or took some away (%(gone)d). The "
                "list is as it is now, and nothing is saved yet: look, and save again."
            )
            raise ValidationError(text % {"came": self.n_came, "gone": self.n_gone})
        seen: set[tuple[Any, Any]] = set()
        for form in self.forms:
            found = getattr(form, "cleaned_data", {})
            file = found.get("file")
            if file is None or found.get("DELETE"):
                continue
            if file.store_id != self.instance.store_id:
                form.add_error(None, _("This is not in the question's store."))
            key = (file.pk, getattr(found.get("chunk"), "pk", None))
            if key in seen:
                form.add_error(None, _("This is expected already."))
            seen.add(key)


class GoldenCsvForm(forms.Form):
    """A store that one may change, and a file."""

    store = forms.ModelChoiceField(
        label=gettext_lazy("store"), queryset=models.Store.objects.none()
    )
    file = forms.FileField(label=gettext_lazy("CSV file"))

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["store"]
        field.queryset = local_stores(request)


class GoldenImportPage(AdminPage):
    """Imports a CSV file and shows the outcome of each line."""

    template_name = "admin/rag/golden_import.html"
    permission_required = ("rag.view_goldenquestion", "rag.add_goldenquestion")
    title = gettext_lazy("Import golden questions")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = {
            "columns": ", ".join(FIELDS),
            "form": GoldenCsvForm(request=self.request),
            **kwargs,
        }
        return super().get_context_data(**context, opts=self.model_admin.opts)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        form = GoldenCsvForm(request.POST, request.FILES, request=request)
        if not form.is_valid():
            return self.render_to_response(self.get_context_data(form=form))
        try:
            taken = import_questions(
                scope=scope_for(request),
                store=form.cleaned_data["store"],
                data=form.cleaned_data["file"].read(MAX_BYTES + 1),
                by=request.user,
            )
        except RAGError as error:
            outcome: dict[str, Any] = {"error": error_sentence(error)}
        else:
            problems = [(line, error_sentence(error)) for line, error in taken.problems]
            outcome = {"taken": taken, "problems": problems}
        return self.render_to_response(self.get_context_data(form=form, **outcome))

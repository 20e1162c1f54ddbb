"""File form: name, type, metadata, restriction to groups and text encoding."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.ui.conflict_form import ConflictCheckedForm
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.splitters import template_choices
from rag.admin.ui.theme import Select
from rag.core.errors import RAGError
from rag.services.files import clean_name, clean_path
from rag.stages.detect.decode import USUAL


class FileForm(ConflictCheckedForm):
    """A file's name, type, metadata, restriction to groups, and text encoding."""

    audit_kinds = ("file", "file restriction")

    encoding_override = forms.ChoiceField(
        label=_("read as"),
        required=False,
        widget=Select,
        help_text=_(
            "For text, Markdown, CSV, HTML and mail that came out garbled. "
            "The file is read and indexed again."
        ),
    )

    splitter = forms.ChoiceField(
        label=_("chunking template"),
        required=False,
        widget=Select,
        help_text=_("Empty: the template of the store. The file is cut anew when it is changed."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "splitter" in self.fields:
            chosen = cast(forms.ChoiceField, self.fields["splitter"])
            chosen.choices = template_choices(str(_("as the store")), self.instance.splitter)
        if "encoding_override" in self.fields:
            codec = self.instance.encoding_override
            known = USUAL if codec in {"", *USUAL} else {**USUAL, codec: codec}
            field = cast(forms.ChoiceField, self.fields["encoding_override"])
            field.choices = [("", _("auto-detected")), *known.items()]

    def rows(self) -> QuerySet[Any]:
        """Return the files without their texts, which the form does not show."""
        return models.File.objects.light()

    def clean_name(self) -> str:
        """Return the name as an upload would keep it."""
        try:
            clean = clean_path if "/" in self.instance.name else clean_name
            return clean(self.cleaned_data["name"])
        except RAGError as error:
            raise forms.ValidationError(error_sentence(error)) from error

    def clean_metadata(self) -> dict[str, Any]:
        """Return a JSON object, which searches can filter by."""
        values = self.cleaned_data["metadata"] or {}
        if not isinstance(values, dict):
            raise forms.ValidationError(
                _("Write a JSON object, such as {example}.").format(example='{"year": 2024}')
            )
        return values

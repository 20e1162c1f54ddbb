"""What a person may say about a file."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from rag.admin.sentences import error_sentence
from rag.core.errors import RAGError
from rag.services.ingest import clean_name


class FileForm(forms.ModelForm):  # type: ignore[type-arg]
    """Name, type, metadata and restriction of a file."""

    def clean_name(self) -> str:
        """Return the name as an upload would keep it."""
        try:
            return clean_name(self.cleaned_data["name"])
        except RAGError as error:
            raise forms.ValidationError(error_sentence(error)) from error

    def clean_metadata(self) -> dict[str, Any]:
        """Return a JSON object, which searches can filter by."""
        values = self.cleaned_data["metadata"] or {}
        if not isinstance(values, dict):
            raise forms.ValidationError(_("Write a JSON object, such as {example}.").format(
                example='{"year": 2024}'
            ))  # fmt: skip
        return values

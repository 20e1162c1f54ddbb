"""The form of a new key. In: what a person chose. Out: values that the service will accept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms

from rag import models
from rag.admin.sentences import error_sentence
from rag.core.errors import RAGError
from rag.services.api_keys import check_key

if TYPE_CHECKING:
    from django.forms import CheckboxSelectMultiple
else:
    from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget as CheckboxSelectMultiple


class ApiKeyForm(forms.ModelForm):  # type: ignore[type-arg]
    """A key's name, user, rights and limits; the admin says who fills the form in."""

    requester: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "rights" in self.fields:
            self.fields["rights"] = forms.MultipleChoiceField(
                label=self.fields["rights"].label,
                choices=models.ApiKey.Right.choices,
                widget=CheckboxSelectMultiple,
                initial=[models.ApiKey.Right.READ],
            )

    def clean(self) -> dict[str, Any] | None:
        """Return all values; the key must be of use to its user."""
        cleaned = super().clean() or {}
        if self.errors or not self.instance._state.adding:
            return cleaned
        try:
            check_key(
                user=cleaned.get("user") or self.requester, name=cleaned["name"],
                rights=cleaned["rights"], stores=list(cleaned["stores"]),
                expires_at=cleaned["expires_at"],
            )  # fmt: skip
        except RAGError as error:
            raise forms.ValidationError(error_sentence(error)) from error
        return cleaned

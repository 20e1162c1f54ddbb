"""What a golden question expects, as typed. In: a chunk or a file. Out: targets of its store."""

from __future__ import annotations

from typing import Any

from django import forms
from django.forms.models import BaseInlineFormSet
from django.utils.translation import gettext_lazy as _


class TargetForm(forms.ModelForm):  # type: ignore[type-arg]
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
            raise forms.ValidationError(_("Choose a chunk or a file."))
        return cleaned


class TargetSet(BaseInlineFormSet):  # type: ignore[type-arg]
    """The targets of one question: all of its own store."""

    def clean(self) -> None:
        """Refuse what another store holds, and the same one twice."""
        super().clean()
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

"""A golden question as typed. In: a question, chunks and files. Out: targets of its store.

The form of two people who have it open at once tells the second what the first one changed.
"""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.forms.models import BaseInlineFormSet
from django.utils.translation import gettext as _

from rag.admin.golden_rows import rows_of_now
from rag.admin.seen import SeenForm


class GoldenForm(SeenForm):
    """The question itself, whether it is measured, and the note."""


class TargetForm(SeenForm):
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


class TargetSet(BaseInlineFormSet):  # type: ignore[type-arg]
    """The targets of one question: all of its own store."""

    def __init__(self, data: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(data, *args, **kwargs)
        self.n_came = self.n_gone = 0
        if self.is_bound and self.instance.pk:
            rows = list(self.get_queryset())
            found = rows_of_now(self.data, str(self.prefix), rows)
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

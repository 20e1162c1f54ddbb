"""Unique constraints on save: of two saves at once the second gets a field error, not a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import IntegrityError
from django.http import HttpRequest

from rag.core.errors import ConflictError

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin as _ModelAdmin

    _Admin = _ModelAdmin[Any]
else:
    _Admin = object


class UniqueOnSave(_Admin):
    """A ModelAdmin that turns the IntegrityError of a concurrent save into a field error."""

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Show or save the form; validate once more if a unique value was taken meanwhile."""
        try:
            return super().changeform_view(request, *args, **kwargs)
        except (IntegrityError, ConflictError):
            # The transaction was rolled back; validation now sees the other row.
            return super().changeform_view(request, *args, **kwargs)

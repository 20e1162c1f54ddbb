"""Two forms that make the same thing at the same moment. In: a form. Out: it, or what is wrong."""

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


class SameMoment(_Admin):
    """A ModelAdmin whose second of two saves at one moment is told so beside the field."""

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Show or save the form; once more where a name was taken after the form was checked."""
        try:
            return super().changeform_view(request, *args, **kwargs)
        except (IntegrityError, ConflictError):
            # Nothing of it was kept, and now the check of the form sees what was in the way.
            return super().changeform_view(request, *args, **kwargs)

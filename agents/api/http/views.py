"""Base viewset of rows that belong to the caller: permissions, filters, strict serializers."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.permissions import SAFE_METHODS, BasePermission

from agents.runtime.scopes import is_uuid
from rag.api.http import views as readable_views
from rag.api.http.authentication import require_caller
from rag.api.http.fields import StrictSerializer
from rag.api.http.views import ProblemSerializer, ReadableViews
from rag.services.access import Caller

_TIMES = ["-updated_at", "updated_at", "-created_at", "created_at", "-id", "id"]
PROBLEMS = {
    **readable_views.PROBLEMS,
    409: OpenApiResponse(ProblemSerializer, "Taken, or being written at this moment."),
}


class OwnedList(StrictSerializer):
    """In which order, how many, from where on."""

    ordering = serializers.ChoiceField(_TIMES, default="-updated_at")
    limit = serializers.IntegerField(default=50, min_value=1, max_value=200)
    cursor = serializers.CharField(
        required=False, max_length=2000, help_text="From “next” of the page before."
    )

    def narrow(self, rows: QuerySet[Any], given: dict[str, Any]) -> QuerySet[Any]:
        """Return the rows that pass."""
        return rows


class OwnerPermission(BasePermission):  # type: ignore[misc]  # DRF has no types
    """The key's right alone: what is one's own needs no permission of a model.

    ``read`` is enough to talk, ``write`` is needed to rename and delete.
    """

    def has_permission(self, request: Any, view: Any) -> bool:
        """Return False for strangers; raise ForbiddenError for a right that is missing."""
        if not isinstance(request.auth, Caller):
            return False
        if view.action is None:
            # A method that is none of this address: 405, whatever the caller may do.
            return True
        is_reading = request.method in SAFE_METHODS or view.action in view.talking
        require_caller(request, "read" if is_reading else "write")
        return True


class OwnedViews(ReadableViews):
    """A resource by its key, of whoever calls."""

    list_filter: type[OwnedList] = OwnedList
    permission_classes = (OwnerPermission,)
    # Actions for which the right to read is enough.
    talking: tuple[str, ...] = ()
    lookup_value_regex = "[0-9a-fA-F-]{36}"

    def get_object(self) -> Any:
        """Return the row of the address; what may not be read is not there."""
        key = self.kwargs["pk"]
        return self.readable_row(**({"key": key} if is_uuid(key) else {}))


class StrictModelSerializer(StrictSerializer, serializers.ModelSerializer):  # type: ignore[misc]
    """A row, of which nothing is set that is not there or not to be set."""

    def get_fields(self) -> dict[str, Any]:
        """Return the fields; that a name is taken is not theirs to say."""
        fields: dict[str, Any] = super().get_fields()
        for field in fields.values():
            # That a name is taken is the service's word (409), whoever owns the other row.
            field.validators = [v for v in field.validators if not hasattr(v, "queryset")]
        return fields

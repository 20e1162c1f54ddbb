"""What the resources of agents share. In: a request with its caller. Out: rows, pages, refusals."""

from __future__ import annotations

from typing import Any, cast

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers, viewsets
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.response import Response

from agents.api.callers import caller_with
from agents.services.find_message import is_key
from rag.core.access import Scope
from rag.core.errors import NotFoundError
from rag.services.access import Caller

_TIMES = ["-updated_at", "updated_at", "-created_at", "created_at", "-id", "id"]


class AgentProblem(serializers.Serializer):  # type: ignore[misc]  # DRF has no types
    """The shape of every error, for the OpenAPI document."""

    error = serializers.DictField(
        help_text="code, message, hint, params; fields when values cannot be taken."
    )


PROBLEMS = {
    400: OpenApiResponse(AgentProblem, "Malformed, or values that cannot be taken, by field."),
    401: OpenApiResponse(AgentProblem, "No key, or one that is unknown, expired or revoked."),
    403: OpenApiResponse(AgentProblem, "Readable, but you or your key may not do this."),
    404: OpenApiResponse(AgentProblem, "Not there, or not readable for you."),
    409: OpenApiResponse(AgentProblem, "Taken, or being written at this moment."),
    429: OpenApiResponse(AgentProblem, "Too many requests; see Retry-After."),
}


class OwnList(serializers.Serializer):  # type: ignore[misc]  # DRF has no types
    """In which order, how many, from where on."""

    ordering = serializers.ChoiceField(_TIMES, default="-updated_at")
    limit = serializers.IntegerField(default=50, min_value=1, max_value=200)
    cursor = serializers.CharField(
        required=False, max_length=2000, help_text="From “next” of the page before."
    )

    def narrow(self, rows: QuerySet[Any], given: dict[str, Any]) -> QuerySet[Any]:
        """Return the rows that pass."""
        return rows


class OwnPermission(BasePermission):  # type: ignore[misc]  # DRF has no types
    """The key's right alone: what is one's own needs no permission of a model.

    ``read`` is enough to talk, ``write`` is needed to rename and delete.
    """

    def has_permission(self, request: Any, view: Any) -> bool:
        """Return False for strangers; raise ForbiddenError for a right that is missing."""
        if not isinstance(request.auth, Caller):
            return False
        is_reading = request.method in SAFE_METHODS or view.action in view.talking
        caller_with(request, "read" if is_reading else "write")
        return True


class OwnViews(viewsets.GenericViewSet):  # type: ignore[misc]  # DRF has no types
    """A resource whose rows are those that the caller's Scope may read, by key."""

    queryset: QuerySet[Any]
    list_filter: type[OwnList] = OwnList
    permission_classes = (OwnPermission,)
    # Actions for which the right to read is enough.
    talking: tuple[str, ...] = ()
    filters: dict[str, Any]
    lookup_value_regex = "[0-9a-fA-F-]{36}"
    http_method_names: tuple[str, ...] = ("get", "head", "options", "post", "patch", "delete")

    @property
    def caller(self) -> Caller:
        """Return who calls."""
        return cast(Caller, self.request.auth)

    @property
    def scope(self) -> Scope:
        """Return what the caller may see."""
        return self.caller.scope

    def get_queryset(self) -> QuerySet[Any]:
        """Return the rows that the caller may read."""
        if getattr(self, "swagger_fake_view", False):
            return self.queryset.none()
        rows = self.queryset.all()
        return rows.readable(self.scope)  # type: ignore[attr-defined,no-any-return]

    def get_serializer_context(self) -> dict[str, Any]:
        """Return the context with the caller, who decides on what can be seen."""
        return {**super().get_serializer_context(), "caller": self.request.auth}

    def get_object(self) -> Any:
        """Return the row of the address; what may not be read is not there."""
        key = self.kwargs["pk"]
        row = self.get_queryset().filter(key=key).first() if is_key(key) else None
        if row is None:
            name = self.queryset.model._meta.model_name
            raise NotFoundError("There is no {kind} {id}.", kind=name, id=key)
        return row

    def checked(self, serializer: type[Any], row: Any = None) -> dict[str, Any]:
        """Return the posted values; only those that were given, when a row is changed."""
        given = serializer(
            row, data=self.request.data, partial=row is not None,
            context=self.get_serializer_context(),
        )  # fmt: skip
        given.is_valid(raise_exception=True)
        return cast(dict[str, Any], given.validated_data)

    def one(self, row: Any, status: int = 200) -> Response:
        """Return a row as the answer."""
        return Response(self.get_serializer(row).data, status=status)

    def list(self, request: Any) -> Response:
        """Return a page of the readable rows."""
        asked = self.list_filter(data=request.query_params.dict())
        asked.is_valid(raise_exception=True)
        self.filters = asked.validated_data
        page = self.paginate_queryset(asked.narrow(self.get_queryset(), self.filters))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    def retrieve(self, request: Any, pk: str) -> Response:
        """Return one row."""
        return self.one(self.get_object())

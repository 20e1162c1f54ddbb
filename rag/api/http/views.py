"""Base viewset: rows readable by the caller's Scope, filters, pages, checked bodies."""

from __future__ import annotations

from typing import Any, cast

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers, viewsets
from rest_framework.authentication import BaseAuthentication
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response

from rag.api.http.authentication import CallerAuthentication, RightsPermission
from rag.api.http.bodies import LimitedJSONParser
from rag.api.http.errors import drf_exception_handler
from rag.api.http.pagination import KeysetPagination
from rag.core.access import Scope
from rag.core.errors import NotFoundError
from rag.services.access import Caller


class ProblemSerializer(serializers.Serializer):  # type: ignore[misc]  # DRF has no types
    """The shape of every error, for the OpenAPI document."""

    class _Error(serializers.Serializer):  # type: ignore[misc]
        code = serializers.CharField(help_text="A word for programs, such as not_found.")
        message = serializers.CharField(help_text="What is wrong, in the language asked for.")
        hint = serializers.CharField(help_text="What to do about it.", allow_blank=True)
        params = serializers.DictField(child=serializers.CharField())
        fields = serializers.DictField(
            child=serializers.ListField(child=serializers.CharField()), required=False
        )

    error = _Error()


PROBLEMS = {
    400: OpenApiResponse(ProblemSerializer, "Malformed, or values that cannot be taken, by field."),
    401: OpenApiResponse(ProblemSerializer, "No key, or one that is unknown, expired or revoked."),
    403: OpenApiResponse(ProblemSerializer, "Readable, but you or your key may not do this."),
    404: OpenApiResponse(ProblemSerializer, "Not there, or not readable for you."),
    429: OpenApiResponse(ProblemSerializer, "Too many requests; see Retry-After."),
}


class ApiViews(viewsets.GenericViewSet):  # type: ignore[misc]  # DRF has no types
    """A viewset by our rules, whatever a project that we are installed in has set for its own."""

    authentication_classes: tuple[type[BaseAuthentication], ...] = (CallerAuthentication,)
    permission_classes: tuple[Any, ...] = (RightsPermission,)
    renderer_classes: tuple[Any, ...] = (JSONRenderer,)
    parser_classes: tuple[Any, ...] = (LimitedJSONParser,)
    pagination_class = KeysetPagination
    filter_backends: tuple[Any, ...] = ()
    throttle_classes: tuple[Any, ...] = ()
    versioning_class = None

    def get_exception_handler(self) -> Any:
        """Return the error map of the API."""
        return drf_exception_handler


class ReadableViews(ApiViews):
    """A resource whose rows are those that the caller's Scope may read.

    ``list_filter`` is a serializer of the query's parameters with ``narrow(rows, given)``.
    """

    queryset: QuerySet[Any]
    list_filter: type[Any]
    filters: dict[str, Any]
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
        """Return the context with the caller, who decides on what can be seen and chosen."""
        return {**super().get_serializer_context(), "caller": self.request.auth}

    def readable_row(self, **place: Any) -> Any:
        """Return the row at a place; NotFoundError for none, or one that may not be read."""
        row = self.get_queryset().filter(**place).first() if place else None
        if row is None:
            name = self.queryset.model._meta.model_name
            raise NotFoundError("There is no {kind} {id}.", kind=name, id=self.kwargs["pk"])
        return row

    def checked(self, serializer: type[Any], row: Any = None) -> dict[str, Any]:
        """Return the posted values; only those that were given, when a row is changed."""
        given = serializer(
            row,
            data=self.request.data,
            partial=row is not None,
            context=self.get_serializer_context(),
        )
        given.is_valid(raise_exception=True)
        return cast(dict[str, Any], given.validated_data)

    def one(self, row: Any, status: int = 200) -> Response:
        """Return a row as the answer."""
        return Response(self.get_serializer(row).data, status=status)

    def list(self, request: Any) -> Response:
        """Return a page of the readable rows that pass the filters."""
        query = self.list_filter.of_query(request)
        self.filters = query.validated_data
        page = self.paginate_queryset(query.narrow(self.further(self.get_queryset()), self.filters))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    def further(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows, narrowed by what only this resource can be asked for."""
        return rows

    def first_rows(self, rows: QuerySet[Any], limit: int) -> QuerySet[Any]:
        """Return the first of the rows, which are in order, for a page."""
        return rows[:limit]

    def retrieve(self, request: Any, pk: str) -> Response:
        """Return one row."""
        return self.one(self.get_object())

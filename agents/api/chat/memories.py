"""Memories by DRF: what agents remember of a person, theirs to see, change and delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response

from agents import models
from agents.api.chat.serializers import MemoryBody
from agents.api.http.views import PROBLEMS, OwnedList, OwnedViews
from agents.chat.memory.agent_memory import may_remember, memories_saying
from agents.chat.memory.storage import add_fact, edit_memory, set_memory_choice
from agents.runtime.scopes import readable_chunks
from rag.api.http.fields import StrictSerializer


class MemoryFilter(StrictSerializer):
    """Which memories."""

    kind = serializers.ChoiceField(models.Memory.Kind.choices, required=False)
    project = serializers.CharField(
        required=False, max_length=200, help_text="The agent's name, or its memory_project."
    )
    session = serializers.UUIDField(required=False)
    q = serializers.CharField(required=False, max_length=200, help_text="Part of the text.")

    def narrow(self, rows: QuerySet[Any], given: dict[str, Any]) -> QuerySet[Any]:
        """Return the rows that pass."""
        rows = rows.filter(**{n: given[n] for n in ("kind", "project") if n in given})
        return rows.filter(session__key=given["session"]) if "session" in given else rows


class MemoryList(MemoryFilter, OwnedList):
    """Which memories, in which order, how many."""


class NewFact(StrictSerializer):
    """A fact that a person writes down."""

    text = serializers.CharField(max_length=2000)
    project = serializers.CharField(
        max_length=200,
        default="",
        allow_blank=True,
        help_text="The agent's name, or its memory_project.",
    )


_SWITCH = {
    "type": "object",
    "required": ["is_on"],
    "properties": {"is_on": {"type": "boolean"}},
    "additionalProperties": False,
}


class MemorySwitch(StrictSerializer):
    """Whether agents may remember one at all."""

    is_on = serializers.BooleanField()


@extend_schema_view(
    list=extend_schema(
        summary="List what is remembered of oneself",
        parameters=[MemoryList],
        responses={200: MemoryBody, **PROBLEMS},
    ),
    retrieve=extend_schema(summary="Read a memory", responses={200: MemoryBody, **PROBLEMS}),
    create=extend_schema(
        summary="Remember a fact", request=NewFact, responses={201: MemoryBody, **PROBLEMS}
    ),
    partial_update=extend_schema(
        summary="Change a memory", responses={200: MemoryBody, **PROBLEMS}
    ),
    destroy=extend_schema(summary="Delete a memory", responses={204: None, **PROBLEMS}),
)
class MemoryViews(OwnedViews):
    """One's own memories, and nobody else's."""

    queryset = models.Memory.objects.select_related("session", "message").defer("embedding")
    serializer_class = MemoryBody
    list_filter = MemoryList

    def further(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the memories that say what is asked for, as far as the caller may read them."""
        part = self.filters.get("q")
        return memories_saying(rows=rows, part=part, scope=self.scope) if part else rows

    def get_serializer(self, *rows: Any, **values: Any) -> Any:
        """Return the serializer, told which passages the caller may still read."""
        if not rows:
            return MemoryBody(**values)
        given: Iterable[models.Memory] = rows[0] if values.get("many") else rows
        ids = [pk for row in given for pk in row.chunk_ids]
        context = {**self.get_serializer_context(), "readable": readable_chunks(ids, self.scope)}
        return MemoryBody(*rows, context=context, **values)

    def create(self, request: HttpRequest) -> Response:
        """Remember a fact."""
        return self.one(add_fact(scope=self.scope, **self.checked(NewFact)), 201)

    def partial_update(self, request: HttpRequest, pk: str) -> Response:
        """Change a memory's words."""
        row = self.get_object()
        values = self.checked(MemoryBody, row)
        return self.one(
            edit_memory(memory=row, text=values.get("text"), answer=values.get("answer"))
        )

    def destroy(self, request: HttpRequest, pk: str) -> Response:
        """Delete a memory."""
        self.get_object().delete()
        return Response(status=204)

    @extend_schema(
        summary="Delete memories", parameters=[MemoryFilter], responses={204: None, **PROBLEMS}
    )
    @action(detail=False, methods=["delete"], url_path="all", pagination_class=None)  # type: ignore[untyped-decorator]  # DRF has no types
    def all(self, request: Any) -> Response:
        """Delete all of one's memories, or those that the filters choose."""
        query = MemoryFilter.of_query(request)
        self.filters = query.validated_data
        query.narrow(self.further(self.get_queryset()), self.filters).delete()
        return Response(status=204)

    @extend_schema(
        summary="May agents remember me?",
        methods=["GET"],
        responses={200: MemorySwitch, **PROBLEMS},
    )
    @extend_schema(
        summary="Let agents remember me or not",
        methods=["PATCH"],
        # Of the serializer it would be a part, of which nothing is needed.
        request={"application/json": _SWITCH},
        responses={200: MemorySwitch, **PROBLEMS},
    )
    @action(detail=False, methods=["get", "patch"], pagination_class=None)  # type: ignore[untyped-decorator]  # DRF has no types
    def choice(self, request: HttpRequest) -> Response:
        """Return whether agents may remember one, after changing it."""
        if request.method == "PATCH":
            set_memory_choice(scope=self.scope, **self.checked(MemorySwitch))
        return Response({"is_on": may_remember(self.scope)})

"""Agents by DRF: list, read, create, change, delete."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import get_language
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response

from agents import models
from agents.api.chat.serializers import AgentBody
from agents.api.chat.visitors import VISITOR_OR_CALLER
from agents.api.http.views import PROBLEMS, OwnedList, OwnedViews
from agents.chat.agents.save import delete_agent, save_agent
from agents.chat.agents.suggestions import suggested_questions
from rag.api.http.authentication import RightsPermission
from rag.api.http.fields import StrictSerializer
from rag.core.errors import NotFoundError


class AgentList(OwnedList):
    """Which agents."""

    ordering = serializers.ChoiceField(
        ["name", "-name", "id", "-id", "updated_at", "-updated_at"], default="name"
    )
    agent_type = serializers.ChoiceField(models.Agent.Type.choices, required=False)

    def narrow(self, rows: QuerySet[Any], given: dict[str, Any]) -> QuerySet[Any]:
        """Return the rows that pass."""
        return rows.filter(**{n: given[n] for n in ("agent_type",) if n in given})


class _Suggested(StrictSerializer):
    """Which questions."""

    store = serializers.CharField(required=False, max_length=512, help_text="Only of this store.")
    limit = serializers.IntegerField(default=4, min_value=1, max_value=10)


class SuggestionsBody(StrictSerializer):
    """Questions to begin with."""

    questions = serializers.ListField(child=serializers.CharField())


@extend_schema_view(
    list=extend_schema(
        summary="List agents", parameters=[AgentList], responses={200: AgentBody, **PROBLEMS}
    ),
    retrieve=extend_schema(summary="Read an agent", responses={200: AgentBody, **PROBLEMS}),
    create=extend_schema(summary="Make an agent", responses={201: AgentBody, **PROBLEMS}),
    partial_update=extend_schema(summary="Change an agent", responses={200: AgentBody, **PROBLEMS}),
    destroy=extend_schema(summary="Delete an agent", responses={204: None, **PROBLEMS}),
)
class AgentViews(OwnedViews):
    """Agents by name. Making and changing needs the permissions that the admin asks for too."""

    queryset = models.Agent.objects.select_related("owner").prefetch_related(
        "stores", "reader_groups", "editor_groups"
    )
    serializer_class = AgentBody
    list_filter = AgentList
    permission_classes = (RightsPermission,)
    lookup_value_regex = "[^/]+"

    def get_object(self) -> models.Agent:
        """Return the agent of a name."""
        name = self.kwargs["pk"].replace("\0", "\ufffd")
        row: models.Agent | None = self.get_queryset().filter(name=name).first()
        if row is None:
            raise NotFoundError("There is no agent “{name}”.", name=name)
        return row

    def create(self, request: HttpRequest) -> Response:
        """Make an agent that the caller owns."""
        values = self.checked(AgentBody)
        stores = values.pop("stores", ())
        row = save_agent(scope=self.scope, values=values, stores=stores, owner=self.caller.user)
        return self.one(row, 201)

    def partial_update(self, request: HttpRequest, pk: str) -> Response:
        """Change an agent."""
        row = self.get_object()
        values = self.checked(AgentBody, row)
        stores = values.pop("stores", None)
        return self.one(save_agent(scope=self.scope, values=values, agent=row, stores=stores))

    @extend_schema(
        summary="Suggest questions that an agent's documents answer",
        parameters=[_Suggested],
        responses={200: SuggestionsBody, **PROBLEMS},
    )
    @action(  # type: ignore[untyped-decorator]  # DRF has no types
        detail=True, pagination_class=None, authentication_classes=VISITOR_OR_CALLER
    )
    def suggestions(self, request: Any, pk: str) -> Response:
        """Return questions made of the headings of files that the caller may read."""
        asked = _Suggested.of_query(request).validated_data
        questions = suggested_questions(
            agent=self.get_object(),
            scope=self.scope,
            store=asked.get("store", ""),
            limit=asked["limit"],
            is_chinese=(get_language() or "").startswith("zh"),
        )
        return Response({"questions": questions})

    def destroy(self, request: HttpRequest, pk: str) -> Response:
        """Delete an agent."""
        delete_agent(agent=self.get_object(), scope=self.scope)
        return Response(status=204)

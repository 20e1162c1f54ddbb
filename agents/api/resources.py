"""Agents, sessions and messages by DRF. In: HTTP. Out: one service's result."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response
from rest_framework.settings import api_settings

from agents import models
from agents.api.own_views import OwnList, OwnViews
from agents.api.serializers import AgentBody, MessageBody, SessionBody
from agents.services.cited_text import cited_text
from agents.services.save_agent import delete_agent, save_agent
from agents.services.sessions import (
    branch_from,
    change_session,
    delete_session,
    give_feedback,
    session_path,
)
from rag.core.errors import NotFoundError


class AgentList(OwnList):
    """Which agents."""

    ordering = serializers.ChoiceField(
        ["name", "-name", "id", "-id", "updated_at", "-updated_at"], default="name"
    )
    agent_type = serializers.ChoiceField(models.Agent.Type.choices, required=False)

    def narrow(self, rows: QuerySet[Any], given: dict[str, Any]) -> QuerySet[Any]:
        """Return the rows that pass."""
        return rows.filter(**{n: given[n] for n in ("agent_type",) if n in given})


class SessionList(OwnList):
    """Which sessions."""

    agent = serializers.CharField(required=False, max_length=64, help_text="The agent's name.")
    title = serializers.CharField(required=False, max_length=200, help_text="Part of the title.")

    def narrow(self, rows: QuerySet[Any], given: dict[str, Any]) -> QuerySet[Any]:
        """Return the rows that pass."""
        rows = rows.filter(agent__name=given["agent"]) if "agent" in given else rows
        return rows.filter(title__icontains=given["title"]) if "title" in given else rows


@extend_schema_view(
    list=extend_schema(summary="List agents", parameters=[AgentList]),
    retrieve=extend_schema(summary="Read an agent"),
    create=extend_schema(summary="Make an agent"),
    partial_update=extend_schema(summary="Change an agent"),
    destroy=extend_schema(summary="Delete an agent"),
)
class AgentViews(OwnViews):
    """Agents by name. Making and changing needs the permissions that the admin asks for too."""

    queryset = models.Agent.objects.select_related("owner").prefetch_related("stores")
    serializer_class = AgentBody
    list_filter = AgentList
    permission_classes = tuple(api_settings.DEFAULT_PERMISSION_CLASSES)
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

    def destroy(self, request: HttpRequest, pk: str) -> Response:
        """Delete an agent."""
        delete_agent(agent=self.get_object(), scope=self.scope)
        return Response(status=204)


@extend_schema_view(
    list=extend_schema(summary="List one's sessions", parameters=[SessionList]),
    retrieve=extend_schema(summary="Read a session"),
    partial_update=extend_schema(summary="Rename a session"),
    destroy=extend_schema(summary="Delete a session with its messages"),
)
class SessionViews(OwnViews):
    """One's own conversations; they begin by asking an agent."""

    queryset = models.Session.objects.select_related("agent", "head")
    serializer_class = SessionBody
    list_filter = SessionList

    def partial_update(self, request: HttpRequest, pk: str) -> Response:
        """Rename a session."""
        row = self.get_object()
        values = self.checked(SessionBody, row)
        return self.one(change_session(session=row, title=values.get("title", row.title)))

    def destroy(self, request: HttpRequest, pk: str) -> Response:
        """Delete a session."""
        delete_session(session=self.get_object())
        return Response(status=204)

    @extend_schema(summary="Read the messages of a session", responses=MessageBody(many=True))
    @action(detail=True, pagination_class=None)  # type: ignore[untyped-decorator]  # DRF has no types
    def messages(self, request: HttpRequest, pk: str) -> Response:
        """Return the branch that the session goes on with, each turn with its alternatives."""
        turns = session_path(session=self.get_object())
        context = self.get_serializer_context()
        return Response(
            [
                {**MessageBody(turn.message, context=context).data,
                 "alternatives": list(turn.alternatives)}
                for turn in turns
            ]
        )  # fmt: skip


class MessageList(OwnList):
    """Which messages."""

    ordering = serializers.ChoiceField(["-id", "id"], default="-id")
    session = serializers.UUIDField(required=False)
    feedback = serializers.ChoiceField([1, -1], required=False)

    def narrow(self, rows: QuerySet[Any], given: dict[str, Any]) -> QuerySet[Any]:
        """Return the rows that pass."""
        rows = rows.filter(session__key=given["session"]) if "session" in given else rows
        return rows.filter(feedback=given["feedback"]) if "feedback" in given else rows


@extend_schema_view(
    list=extend_schema(summary="List one's messages", parameters=[MessageList]),
    retrieve=extend_schema(summary="Read a message"),
    partial_update=extend_schema(summary="Give feedback to an answer"),
)
class MessageViews(OwnViews):
    """The turns of one's own sessions."""

    queryset = models.Message.objects.select_related("session", "parent")
    serializer_class = MessageBody
    list_filter = MessageList
    talking = ("partial_update", "branch")
    http_method_names = ("get", "head", "options", "post", "patch")

    def partial_update(self, request: HttpRequest, pk: str) -> Response:
        """Keep what the reader thinks of an answer."""
        row = self.get_object()
        values = self.checked(MessageBody, row)
        feedback = values.get("feedback", row.feedback)
        comment = values.get("feedback_comment", row.feedback_comment)
        return self.one(give_feedback(message=row, feedback=feedback, comment=comment))

    @extend_schema(summary="Go on from this message", request=None, responses=SessionBody)
    @action(detail=True, methods=["post"])  # type: ignore[untyped-decorator]  # DRF has no types
    def branch(self, request: HttpRequest, pk: str) -> Response:
        """Let the session go on from here; what came after stays as another branch."""
        session = branch_from(message=self.get_object())
        return Response(SessionBody(session, context=self.get_serializer_context()).data)

    @extend_schema(
        summary="Read the text that a citation pinned", responses=OpenApiTypes.OBJECT,
        parameters=[OpenApiParameter("number", int, OpenApiParameter.PATH)],
    )  # fmt: skip
    @action(detail=True, url_path="citations/(?P<number>[0-9]{1,4})", pagination_class=None)  # type: ignore[untyped-decorator]  # DRF has no types
    def citations(self, request: HttpRequest, pk: str, number: str) -> Response:
        """Return a citation with the text as it was quoted, however often it changed since."""
        row = self.get_object()
        return Response(cited_text(message=row, number=int(number), scope=self.scope))

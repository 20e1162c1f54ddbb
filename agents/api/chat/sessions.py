"""Sessions and messages by DRF."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response

from agents import models
from agents.api.chat.serializers import MessageBody, SessionBody
from agents.api.chat.visitors import VISITOR_OR_CALLER
from agents.api.http.views import PROBLEMS, OwnedList, OwnedViews
from agents.chat.answers.sessions import (
    branch_from,
    delete_session,
    record_feedback,
    rename_session,
    sessions_with_words,
)
from agents.chat.history.evidence import redact_unreadable
from agents.chat.history.history import MAX_TURNS, session_path
from agents.chat.history.quotes import cited_text
from agents.chat.history.titles import hidden_titles, titled
from rag.api.http.fields import StrictSerializer


class SessionList(OwnedList):
    """Which sessions."""

    agent = serializers.CharField(required=False, max_length=64, help_text="The agent's name.")
    title = serializers.CharField(required=False, max_length=200, help_text="Part of the title.")
    q = serializers.CharField(
        required=False, max_length=200, help_text="Part of the title or of a question."
    )

    def narrow(self, rows: QuerySet[Any], given: dict[str, Any]) -> QuerySet[Any]:
        """Return the rows that pass."""
        return rows.filter(agent__name=given["agent"]) if "agent" in given else rows


class _SessionPart(StrictSerializer):
    """Which part of a conversation."""

    until = serializers.UUIDField(
        required=False,
        help_text="The message to end with; else where the session goes on. "
        "What came before the first message of an answer ends with its parent.",
    )
    limit = serializers.IntegerField(default=MAX_TURNS, min_value=1, max_value=MAX_TURNS)


class SessionEnd(StrictSerializer):
    """What else goes with a session."""

    memories = serializers.ChoiceField(
        ["delete", "keep"],
        default="delete",
        help_text="What agents remember from it goes, or stays without its source.",
    )


@extend_schema_view(
    list=extend_schema(
        summary="List one's sessions",
        parameters=[SessionList],
        responses={200: SessionBody, **PROBLEMS},
    ),
    retrieve=extend_schema(summary="Read a session", responses={200: SessionBody, **PROBLEMS}),
    partial_update=extend_schema(
        summary="Rename a session", responses={200: SessionBody, **PROBLEMS}
    ),
    destroy=extend_schema(
        summary="Delete a session with its messages",
        parameters=[SessionEnd],
        responses={204: None, **PROBLEMS},
    ),
)
class SessionViews(OwnedViews):
    """One's own conversations; they begin by asking an agent."""

    queryset = models.Session.objects.select_related("agent", "head", "titled_after")
    serializer_class = SessionBody
    authentication_classes = VISITOR_OR_CALLER
    list_filter = SessionList

    def get_serializer(self, *rows: Any, **values: Any) -> Any:
        """Return the serializer, told which titles the caller may not read any more."""
        if not rows:
            return SessionBody(**values)
        given = rows[0] if values.get("many") else rows
        hidden = hidden_titles(sessions=given, scope=self.scope)
        context = {**self.get_serializer_context(), "hidden_titles": hidden}
        return SessionBody(*rows, context=context, **values)

    def further(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the sessions with a title that has the part asked for, as the caller sees it."""
        part, words = self.filters.get("title"), self.filters.get("q")
        rows = titled(rows=rows, part=part, scope=self.scope) if part else rows
        return sessions_with_words(rows=rows, text=words, scope=self.scope) if words else rows

    def partial_update(self, request: HttpRequest, pk: str) -> Response:
        """Rename a session."""
        row = self.get_object()
        values = self.checked(SessionBody, row)
        return self.one(rename_session(session=row, title=values.get("title", row.title)))

    def destroy(self, request: Any, pk: str) -> Response:
        """Delete a session."""
        query = SessionEnd.of_query(request)
        keeps = query.validated_data["memories"] == "keep"
        delete_session(session=self.get_object(), keeps_memories=keeps)
        return Response(status=204)

    @extend_schema(
        summary="Read the messages of a session",
        parameters=[_SessionPart],
        responses={200: MessageBody(many=True), **PROBLEMS},
    )
    @action(detail=True, pagination_class=None)  # type: ignore[untyped-decorator]  # DRF has no types
    def messages(self, request: Any, pk: str) -> Response:
        """Return the branch that the session goes on with, each turn with its alternatives."""
        query = _SessionPart.of_query(request)
        part = query.validated_data
        turns = session_path(
            session=self.get_object(), until=str(part.get("until", "")), limit=part["limit"]
        )
        rows = [turn.message for turn in turns]
        evidence = redact_unreadable(messages=rows, scope=self.scope)
        context = {**self.get_serializer_context(), "evidence": evidence}
        return Response(
            [
                {
                    **MessageBody(turn.message, context=context).data,
                    "alternatives": list(turn.alternatives),
                }
                for turn in turns
            ]
        )


class MessageList(OwnedList):
    """Which messages."""

    ordering = serializers.ChoiceField(["-id", "id"], default="-id")
    session = serializers.UUIDField(required=False)
    feedback = serializers.ChoiceField([1, -1], required=False)

    def narrow(self, rows: QuerySet[Any], given: dict[str, Any]) -> QuerySet[Any]:
        """Return the rows that pass."""
        rows = rows.filter(session__key=given["session"]) if "session" in given else rows
        return rows.filter(feedback=given["feedback"]) if "feedback" in given else rows


@extend_schema_view(
    list=extend_schema(
        summary="List one's messages",
        parameters=[MessageList],
        responses={200: MessageBody, **PROBLEMS},
    ),
    retrieve=extend_schema(summary="Read a message", responses={200: MessageBody, **PROBLEMS}),
    partial_update=extend_schema(
        summary="Give feedback to an answer", responses={200: MessageBody, **PROBLEMS}
    ),
)
class MessageViews(OwnedViews):
    """The turns of one's own sessions."""

    queryset = models.Message.objects.select_related("session", "parent")
    serializer_class = MessageBody
    authentication_classes = VISITOR_OR_CALLER
    list_filter = MessageList
    talking = ("partial_update", "branch")
    http_method_names = ("get", "head", "options", "post", "patch")

    def get_serializer(self, *rows: Any, **values: Any) -> Any:
        """Return the serializer, told what the caller may still read."""
        if not rows:
            return MessageBody(**values)
        given = rows[0] if values.get("many") else rows
        evidence = redact_unreadable(messages=given, scope=self.scope)
        context = {**self.get_serializer_context(), "evidence": evidence}
        return MessageBody(*rows, context=context, **values)

    def partial_update(self, request: HttpRequest, pk: str) -> Response:
        """Keep what the reader thinks of an answer."""
        row = self.get_object()
        values = self.checked(MessageBody, row)
        feedback = values.get("feedback", row.feedback)
        comment = values.get("feedback_comment", row.feedback_comment)
        return self.one(record_feedback(message=row, feedback=feedback, comment=comment))

    @extend_schema(
        summary="Go on from this message", request=None, responses={200: SessionBody, **PROBLEMS}
    )
    @action(detail=True, methods=["post"])  # type: ignore[untyped-decorator]  # DRF has no types
    def branch(self, request: HttpRequest, pk: str) -> Response:
        """Let the session go on from here; what came after stays as another branch."""
        session = branch_from(message=self.get_object())
        hidden = hidden_titles(sessions=[session], scope=self.scope)
        context = {**self.get_serializer_context(), "hidden_titles": hidden}
        return Response(SessionBody(session, context=context).data)

    @extend_schema(
        summary="Read the text that a citation pinned",
        responses={200: OpenApiTypes.OBJECT, **PROBLEMS},
        parameters=[OpenApiParameter("number", int, OpenApiParameter.PATH)],
    )
    @action(detail=True, url_path="citations/(?P<number>[0-9]{1,4})", pagination_class=None)  # type: ignore[untyped-decorator]  # DRF has no types
    def citations(self, request: HttpRequest, pk: str, number: str) -> Response:
        """Return a citation with the text as it was quoted, however often it changed since."""
        row = self.get_object()
        return Response(cited_text(message=row, number=int(number), scope=self.scope))

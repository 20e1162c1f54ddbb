"""Serializers of agents, sessions, messages and memories.

Nothing is saved here: the views hand the values to services.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.contrib.auth import get_user_model
from django.utils.translation import get_language, gettext
from rest_framework import serializers

from agents import models
from agents.api.http.sse import localize_error
from agents.api.http.views import StrictModelSerializer
from agents.chat.history.evidence import redact_unreadable
from rag.api.http.fields import GroupsField
from rag.core.access import Scope, may_edit
from rag.core.errors import RAGError


class AgentBody(StrictModelSerializer):
    """An agent. Its prompt and groups are shown to those who may change it."""

    stores = serializers.ListField(
        child=serializers.CharField(max_length=512),
        max_length=50,
        required=False,
        help_text="Stores by slug, name or resource name; empty: all that who asks may read.",
    )
    owner = serializers.SlugRelatedField(
        get_user_model().USERNAME_FIELD, read_only=True, allow_null=True
    )
    reader_groups = GroupsField(many=True, required=False)
    editor_groups = GroupsField(many=True, required=False)
    config = serializers.DictField(required=False, help_text="Only what differs from the defaults.")

    class Meta:
        model = models.Agent
        fields = (
            "id",
            "name",
            "display_name",
            "description",
            "agent_type",
            "agent_role",
            "max_iterations",
            "temperature",
            "is_enabled",
            "is_builtin",
            "config",
            "model",
            "prompt",
            "stores",
            "owner",
            "reader_groups",
            "editor_groups",
            "is_public",
            "created_at",
            "updated_at",
        )
        read_only_fields = ("is_builtin",)

    def to_representation(self, row: models.Agent) -> dict[str, Any]:
        """Return the agent with all values of its config."""
        stores = [store.slug for store in row.stores.all()]
        row_fields = {n: f for n, f in self.fields.items() if n != "stores"}
        data = {name: _shown(field, row) for name, field in row_fields.items()}
        data |= {"config": row.settings.as_dict(), "stores": sorted(stores)}
        scope = self.context["caller"].scope
        if not may_edit(scope, row.facts) or scope.only_store_ids is not None:
            for name in ("prompt", "stores", "reader_groups", "editor_groups", "owner"):
                data.pop(name)
            data["config"] = _for_readers(data["config"], scope)
        return data

    def validate_config(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return a config that every answer will accept."""
        try:
            models.Agent(config=values, name="agent").settings  # noqa: B018
        except RAGError as error:
            raise serializers.ValidationError(error.localized(gettext)) from error
        return values


class SessionBody(StrictModelSerializer):
    """A conversation; ``head`` is the message where it goes on."""

    id = serializers.UUIDField(source="key", read_only=True)
    agent = serializers.SlugRelatedField("name", read_only=True)
    head = serializers.UUIDField(source="head.key", read_only=True, allow_null=True, default=None)
    title = serializers.CharField(max_length=200)

    class Meta:
        model = models.Session
        fields = ("id", "agent", "title", "head", "created_at", "updated_at")
        read_only_fields = ("created_at", "updated_at")

    def to_representation(self, row: models.Session) -> dict[str, Any]:
        """Return the session, under its first question where its title may not be read."""
        data: dict[str, Any] = super().to_representation(row)
        hidden: dict[int, str] = self.context["hidden_titles"]
        return {**data, "title": hidden.get(row.pk, data["title"])}


class MessageBody(StrictModelSerializer):
    """A turn. Of an answer only the feedback can be changed.

    Sources and citations that may not be read any more have lost their words (``is_gone``), and
    the content has ``[…]`` in place of what it said from them.
    """

    id = serializers.UUIDField(source="key", read_only=True)
    session = serializers.UUIDField(source="session.key", read_only=True)
    parent = serializers.UUIDField(
        source="parent.key", read_only=True, allow_null=True, default=None
    )
    feedback = serializers.ChoiceField([1, -1], allow_null=True, required=False)
    feedback_comment = serializers.CharField(max_length=2000, allow_blank=True, required=False)
    error = serializers.SerializerMethodField()
    notices = serializers.SerializerMethodField()

    class Meta:
        model = models.Message
        fields = (
            "id",
            "session",
            "parent",
            "role",
            "status",
            "content",
            "query",
            "outcome",
            "confidence",
            "grounding",
            "citations",
            "sources",
            "notices",
            "usage",
            "timings_ms",
            "model",
            "error",
            "feedback",
            "feedback_comment",
            "created_at",
        )
        read_only_fields = tuple(
            name for name in fields if name not in ("feedback", "feedback_comment")
        )

    def to_representation(self, row: models.Message) -> dict[str, Any]:
        """Return the turn with what may still be read of its evidence."""
        data: dict[str, Any] = super().to_representation(row)
        evidence = self.context.get("evidence") or redact_unreadable(
            messages=[row], scope=self.context["caller"].scope
        )
        shown = evidence[row.pk]
        told = asdict(shown)
        del told["is_reduced"]
        return {**data, **told}

    def get_error(self, row: models.Message) -> dict[str, Any] | None:
        """Return why an answer failed, in the reader's language."""
        if not row.error:
            return None
        told: dict[str, Any] = localize_error({"error": row.error}, get_language() or "en")["error"]
        return told

    def get_notices(self, row: models.Message) -> list[dict[str, Any]]:
        """Return what the reader should know, in their language."""
        return [localize_error(notice, get_language() or "en") for notice in row.notices]


class MemoryBody(StrictModelSerializer):
    """What is remembered of oneself: a fact, or a question with its answer.

    The answer is empty, and ``is_answer_gone`` true, where it rests on what one may not read any
    more.
    """

    id = serializers.UUIDField(source="key", read_only=True)
    session = serializers.UUIDField(
        source="session.key", read_only=True, allow_null=True, default=None
    )
    message = serializers.UUIDField(
        source="message.key", read_only=True, allow_null=True, default=None
    )
    text = serializers.CharField(max_length=2000)
    answer = serializers.CharField(max_length=2000, allow_blank=True, required=False)
    is_answer_gone = serializers.SerializerMethodField()

    class Meta:
        model = models.Memory
        fields = (
            "id",
            "kind",
            "project",
            "text",
            "answer",
            "is_answer_gone",
            "is_by_hand",
            "session",
            "message",
            "created_at",
            "updated_at",
        )
        read_only_fields = ("kind", "project", "is_by_hand", "created_at", "updated_at")

    def get_is_answer_gone(self, row: models.Memory) -> bool:
        """Return whether the answer may not be shown any more."""
        readable: frozenset[int] = self.context["readable"]
        return not readable.issuperset(row.chunk_ids)

    def to_representation(self, row: models.Memory) -> dict[str, Any]:
        """Return the memory, without an answer that is gone."""
        data: dict[str, Any] = super().to_representation(row)
        return {**data, "answer": ""} if data["is_answer_gone"] else data


def _for_readers(config: dict[str, Any], scope: Scope) -> dict[str, Any]:
    """Return a config without how sources are asked, and without agents that may not be seen."""
    names = config["agents"]
    seen = models.Agent.objects.readable(scope).filter(name__in=names) if names else ()
    known = {row.name for row in seen}
    return {
        **config,
        "sources": sorted(config["sources"]),
        "agents": [name for name in names if name in known],
    }


def _shown(field: Any, row: models.Agent) -> Any:
    value = field.get_attribute(row)
    return None if value is None else field.to_representation(value)

"""Conversations: sessions, their messages as a tree, and the events of each answer."""

from __future__ import annotations

import uuid
from typing import Any, Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext_lazy as _

from agents.models.agent import Agent
from agents.models.own_rows import own_sessions
from agents.models.widget import Widget
from rag.core.access import Scope

# Only the rows of the branch are read, however many others the session has.
_BRANCH = """
WITH RECURSIVE branch AS (
  SELECT id, parent_id, 1 AS n FROM agents_message WHERE id = %s
  UNION ALL
  SELECT m.id, m.parent_id, b.n + 1 FROM branch b JOIN agents_message m ON m.id = b.parent_id
  WHERE b.n < %s)
SELECT id FROM branch
"""


class SessionQuerySet(models.QuerySet["Session"]):
    """Sessions as a caller may see them: their own, and nobody else's, operators' neither."""

    def readable(self, scope: Scope) -> Self:
        """Return somebody's own sessions; a key for some stores sees those held with such a key."""
        return self.filter(own_sessions(scope))


class MessageQuerySet(models.QuerySet["Message"]):
    """Messages as a caller may see them: those of their own sessions."""

    def readable(self, scope: Scope) -> Self:
        """Return the messages of somebody's own sessions."""
        return self.filter(own_sessions(scope, "session__"))

    def branch(self, message_id: int, limit: int) -> Self:
        """Return a message and those that lead to it, oldest first, the last ``limit`` of them."""
        # A message is always written after the one it follows.
        return self.filter(pk__in=RawSQL(_BRANCH, [message_id, limit])).order_by("pk")


class Session(models.Model):
    """A conversation of one person with an agent. ``head`` is where it goes on."""

    class TitledBy(models.TextChoices):
        """Who gave the title."""

        RULE = "rule", _("first question")
        MODEL = "model", _("chat model")
        PERSON = "person", _("person")

    key = models.UUIDField(_("key"), default=uuid.uuid4, unique=True, editable=False)
    agent = models.ForeignKey(
        Agent, models.SET_NULL, null=True, related_name="sessions", verbose_name=_("agent")
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        related_name="agent_sessions",
        verbose_name=_("user"),
    )
    # Of somebody without an account: where they asked, and the digest of their browser's secret.
    widget = models.ForeignKey(
        Widget,
        models.CASCADE,
        null=True,
        editable=False,
        related_name="sessions",
        verbose_name=_("widget"),
    )
    visitor = models.CharField(max_length=64, blank=True, editable=False)
    only_store_ids = ArrayField(
        models.BigIntegerField(), null=True, editable=False, verbose_name=_("limited to stores")
    )
    title = models.CharField(_("title"), max_length=200, blank=True)
    # A title that a person gave is never replaced.
    titled_by = models.CharField(
        _("titled by"), max_length=10, choices=TitledBy, default=TitledBy.RULE, editable=False
    )
    # The answer that a model's title was made from: the title goes with what that one rests on.
    titled_after = models.ForeignKey(
        "agents.Message", models.SET_NULL, null=True, editable=False, related_name="+"
    )
    head = models.ForeignKey(
        "agents.Message", models.SET_NULL, null=True, related_name="+", verbose_name=_("goes on at")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated"), auto_now=True)

    objects = SessionQuerySet.as_manager()

    class Meta:
        verbose_name = _("session")
        verbose_name_plural = _("sessions")
        ordering = ["-updated_at", "-id"]
        indexes = [
            models.Index(fields=["user", "-updated_at"], name="agents_session_of_user"),
            models.Index(
                fields=["visitor", "-updated_at"],
                condition=~Q(visitor=""),
                name="agents_session_of_visitor",
            ),
        ]

    def __str__(self) -> str:
        return self.title or str(self.key)


class Message(models.Model):
    """One turn. An answer carries what it rests on: citations pin revision and offsets.

    Several answers to one question, and several questions after one answer, share a parent.
    """

    class Role(models.TextChoices):
        """Who speaks."""

        USER = "user", _("user")
        ASSISTANT = "assistant", _("assistant")

    class Status(models.TextChoices):
        """Where an answer stands; questions are done."""

        RUNNING = "running", _("being written")
        DONE = "done", _("done")
        STOPPED = "stopped", _("stopped")
        ERROR = "error", _("failed")

    key = models.UUIDField(_("key"), default=uuid.uuid4, unique=True, editable=False)
    session = models.ForeignKey(
        Session, models.CASCADE, related_name="messages", verbose_name=_("session")
    )
    parent = models.ForeignKey(
        "self", models.CASCADE, null=True, related_name="children", verbose_name=_("parent")
    )
    role = models.CharField(_("role"), max_length=10, choices=Role)
    status = models.CharField(_("status"), max_length=10, choices=Status, default=Status.DONE)
    content = models.TextField(_("content"), blank=True)
    query = models.TextField(_("question as searched"), blank=True)
    outcome = models.CharField(_("outcome"), max_length=20, blank=True)
    confidence = models.FloatField(_("confidence"), null=True)
    citations = models.JSONField(_("citations"), default=list, blank=True)
    grounding = models.JSONField(_("grounding"), default=dict, blank=True)
    sources = models.JSONField(_("sources"), default=list, blank=True)
    # What it rests on: what its model was shown, also by way of earlier answers and memories.
    chunk_ids = ArrayField(models.BigIntegerField(), default=list, editable=False)
    notices = models.JSONField(_("notices"), default=list, blank=True)
    usage = models.JSONField(_("usage"), default=dict, blank=True)
    timings_ms = models.JSONField(_("times in ms"), default=dict, blank=True)
    model = models.CharField(_("model"), max_length=300, blank=True)
    error = models.JSONField(_("error"), null=True)
    summary = models.TextField(
        _("summary up to here"),
        blank=True,
        help_text=_("What the conversation was about, this turn included."),
    )
    feedback = models.SmallIntegerField(
        _("feedback"), null=True, choices=[(1, _("good")), (-1, _("bad"))]
    )
    feedback_comment = models.TextField(_("comment"), blank=True)
    # What the run was given, for whoever answers again.
    request = models.JSONField(default=dict, editable=False)
    # Who writes it: a process that gives no sign of life loses it.
    worker = models.UUIDField(null=True, editable=False)
    seen_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    objects = MessageQuerySet.as_manager()

    class Meta:
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        ordering = ["session", "id"]
        indexes = [
            models.Index(
                fields=["seen_at"], condition=Q(status="running"), name="agents_message_running"
            ),
            GinIndex(fields=["chunk_ids"], name="agents_message_chunks"),
        ]

    def __str__(self) -> str:
        return self.content[:80]


class MessageEvent(models.Model):
    """One event of an answer, for those who come back to its stream."""

    message = models.ForeignKey(
        Message, models.CASCADE, related_name="events", verbose_name=_("message"), db_index=False
    )
    seq = models.PositiveIntegerField(_("number"))
    kind = models.CharField(_("kind"), max_length=20)
    data: models.JSONField[Any, Any] = models.JSONField(_("data"), default=dict)
    at = models.DateTimeField(_("at"), auto_now_add=True)

    class Meta:
        verbose_name = _("message event")
        verbose_name_plural = _("message events")
        ordering = ["message", "seq"]
        constraints = [
            models.UniqueConstraint(fields=["message", "seq"], name="agents_message_event_seq")
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"

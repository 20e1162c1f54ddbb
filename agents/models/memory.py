"""Memories of a person (episodic and semantic), and whether the person allows any."""

from __future__ import annotations

import uuid
from typing import Any, Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from pgvector.django import CosineDistance, HalfVectorField

from agents.models.conversation import Message, Session
from agents.models.own_rows import own_rows
from rag.core.access import Scope


class MemoryQuerySet(models.QuerySet["Memory"]):
    """Memories as a caller may see them: their own, and nobody else's, operators' neither."""

    def readable(self, scope: Scope) -> Self:
        """Return somebody's own memories; a key for some stores sees those made with such a key."""
        return self.filter(own_rows(scope))

    def exactly(self, scope: Scope) -> Self:
        """Return those made with the very rights of ``scope``: what new ones are merged with."""
        only = scope.only_store_ids
        if only is not None:
            return self.readable(scope)
        return self.readable(scope).filter(only_store_ids=None)

    def near(self, vector: Any, space: str, max_distance: float = 2.0) -> Self:
        """Return those of a space, nearest first, with their cosine ``distance``; exact."""
        found = self.filter(space=space, embedding__isnull=False)
        near = found.annotate(distance=CosineDistance("embedding", vector))
        return near.filter(distance__lte=max_distance).order_by("distance", "pk")


class Memory(models.Model):
    """One thing that is remembered, with the message that it comes from.

    Of a fact ``text`` is the fact; of an exchange it is the question, with its ``answer`` and the
    ``chunk_ids`` that this one rests on: who may not read these any more is not told it again.
    """

    class Kind(models.TextChoices):
        """What is remembered."""

        EPISODIC = "episodic", _("question and answer")
        SEMANTIC = "semantic", _("fact")

    key = models.UUIDField(_("key"), default=uuid.uuid4, unique=True, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        related_name="agent_memories",
        verbose_name=_("user"),
        db_index=False,
    )
    only_store_ids = ArrayField(
        models.BigIntegerField(), null=True, editable=False, verbose_name=_("limited to stores")
    )
    project = models.CharField(
        _("project"),
        max_length=200,
        blank=True,
        help_text=_("Agents of one project share what they remember of a person."),
    )
    kind = models.CharField(_("kind"), max_length=10, choices=Kind)
    # What it is about, folded: there is one memory of a thing, the newest.
    subject = models.CharField(_("subject"), max_length=200)
    text = models.TextField(_("text"))
    answer = models.TextField(_("answer"), blank=True)
    chunk_ids = ArrayField(
        models.BigIntegerField(),
        default=list,
        blank=True,
        editable=False,
        verbose_name=_("rests on"),
    )
    # Memories go with what they come from, unless the owner chooses to keep them.
    session = models.ForeignKey(
        Session, models.CASCADE, null=True, related_name="memories", verbose_name=_("session")
    )
    message = models.ForeignKey(
        Message, models.CASCADE, null=True, related_name="memories", verbose_name=_("message")
    )
    is_by_hand = models.BooleanField(_("written by hand"), default=False)
    embedding: Any = HalfVectorField(null=True, editable=False)
    # Which model's vectors may be compared with it; empty: it has none yet.
    space = models.CharField(max_length=460, blank=True, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("updated"), default=timezone.now, editable=False)

    objects = MemoryQuerySet.as_manager()

    class Meta:
        verbose_name = _("memory")
        verbose_name_plural = _("memories")
        ordering = ["-updated_at", "-id"]
        indexes = [
            models.Index(fields=["user", "project", "kind"], name="agents_memory_of_user"),
            models.Index(fields=["updated_at"], name="agents_memory_age"),
            GinIndex(fields=["chunk_ids"], name="agents_memory_chunks"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["user", "project", "kind", "only_store_ids", "subject"],
                nulls_distinct=False,
                name="agents_memory_once",
            ),
            models.CheckConstraint(
                condition=Q(embedding=None) | ~Q(space=""), name="agents_memory_space"
            ),
        ]

    def __str__(self) -> str:
        return self.text[:80]


class MemoryChoice(models.Model):
    """Whether a person lets agents remember at all; without a row they do."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        primary_key=True,
        related_name="memory_choice",
        verbose_name=_("user"),
    )
    is_on = models.BooleanField(_("agents may remember"), default=True)

    class Meta:
        verbose_name = _("choice on memory")
        verbose_name_plural = _("choices on memory")

    def __str__(self) -> str:
        return str(self.user)

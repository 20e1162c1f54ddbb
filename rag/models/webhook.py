"""Webhooks: addresses that are told what happened, and each delivery with how it went."""

from __future__ import annotations

import secrets
import uuid
from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


def new_webhook_key() -> str:
    """Return what a webhook's secret is derived from."""
    return secrets.token_hex(16)


class Webhook(models.Model):
    """An address of another system. What it is told names things and holds no text of theirs."""

    class Event(models.TextChoices):
        """What is told; ``test`` is sent by hand alone."""

        FILE_READY = "file.ready", _("file ready")
        ANSWER_GIVEN = "answer.given", _("answer given")
        ANSWER_NOT_FOUND = "answer.not_found", _("no answer found")
        TEST = "test", _("test")

    name = models.CharField(_("name"), max_length=100)
    url = models.URLField(_("address"), max_length=500)
    events = ArrayField(
        models.CharField(max_length=30, choices=Event), default=list, verbose_name=_("events")
    )
    key = models.CharField(max_length=32, default=new_webhook_key, editable=False)
    is_enabled = models.BooleanField(_("enabled"), default=True)
    # While its target does not answer, everything for it waits.
    held_until = models.DateTimeField(null=True, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
        verbose_name=_("created by"),
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("webhook")
        verbose_name_plural = _("webhooks")
        ordering = ["name", "id"]

    def __str__(self) -> str:
        return self.name


class WebhookDelivery(models.Model):
    """One event for one webhook. ``next_at`` None: it has ended, delivered or given up."""

    webhook = models.ForeignKey(
        Webhook, models.CASCADE, related_name="deliveries", verbose_name=_("webhook")
    )
    key = models.UUIDField(_("key"), default=uuid.uuid4, unique=True, editable=False)
    event = models.CharField(_("event"), max_length=30, choices=Webhook.Event)
    data: models.JSONField[Any, Any] = models.JSONField(_("data"), default=dict)
    n_attempts = models.PositiveIntegerField(_("attempts"), default=0)
    next_at = models.DateTimeField(_("next attempt"), null=True)
    delivered_at = models.DateTimeField(_("delivered"), null=True)
    error: models.JSONField[Any, Any] = models.JSONField(_("error"), null=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("webhook delivery")
        verbose_name_plural = _("webhook deliveries")
        ordering = ["-id"]
        indexes = [
            models.Index(
                fields=["webhook", "next_at"],
                condition=Q(next_at__isnull=False),
                name="rag_webhook_due",
            )
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.key}"

"""Trace steps: decisions of an answer, kept when the events of its answer are gone."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from agents.models.conversation import Message


class TraceStep(models.Model):
    """One decision, kept when the events of its answer are gone.

    Its calls of models are the ledger's, found by the message's key.
    """

    message = models.ForeignKey(
        Message, models.CASCADE, related_name="trace", verbose_name=_("message"), db_index=False
    )
    seq = models.PositiveIntegerField(_("number"))
    kind = models.CharField(_("kind"), max_length=20)
    name = models.CharField(_("name"), max_length=100, blank=True)
    outcome = models.CharField(_("outcome"), max_length=20, blank=True)
    duration_ms = models.FloatField(_("duration in ms"), null=True)
    data: models.JSONField[Any, Any] = models.JSONField(_("data"), default=dict)
    at = models.DateTimeField(_("at"))

    class Meta:
        verbose_name = _("decision")
        verbose_name_plural = _("decisions")
        ordering = ["message", "seq"]
        constraints = [models.UniqueConstraint(fields=["message", "seq"], name="agents_trace_seq")]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind} {self.name}"

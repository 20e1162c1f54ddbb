"""Outbound grants: consents of askers and approvals of administrators."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from agents.models.agent import Agent
from agents.models.flow import Flow


class OutboundGrant(models.Model):
    """An agent or flow may tell these hosts what these stores say, though its author may not read.

    With a ``user`` it is that person's consent for their own questions, without one the approval of
    an administrator for everybody's. One that calls another host by now needs a new one.
    """

    agent = models.ForeignKey(
        Agent, models.CASCADE, null=True, blank=True, related_name="+", verbose_name=_("agent")
    )
    flow = models.ForeignKey(
        Flow, models.CASCADE, null=True, blank=True, related_name="+", verbose_name=_("flow")
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("user"),
        help_text=_("Empty: approved for everybody."),
    )
    stores = models.ManyToManyField("rag.Store", related_name="+", verbose_name=_("stores"))
    hosts = ArrayField(models.CharField(max_length=300), verbose_name=_("hosts"))
    granted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
        verbose_name=_("granted by"),
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("permission to send out")
        verbose_name_plural = _("permissions to send out")
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(agent=None) ^ Q(flow=None), name="agents_grant_of_one"
            ),
            models.UniqueConstraint(
                fields=["agent", "flow", "user"], nulls_distinct=False, name="agents_grant_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.agent or self.flow} → {', '.join(self.hosts)}"

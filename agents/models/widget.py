"""Widgets: an agent that an administrator puts on other sites, and behind a link, for everybody."""

from __future__ import annotations

import secrets

from django.conf import settings
from django.contrib.auth.models import Group
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents.models.agent import Agent

MAX_ORIGINS = 50


def new_widget_key() -> str:
    """Return a public key: it names a widget and opens nothing that is not open to everybody."""
    return f"wk_{secrets.token_hex(12)}"


class Widget(models.Model):
    """A public door to one agent. Visitors have no account; what they see is what is public.

    ``group`` lets them see what its members may read besides. ``origins`` are the sites whose
    pages may show the chat in a frame.
    """

    key = models.CharField(
        _("public key"), max_length=32, unique=True, default=new_widget_key, editable=False
    )
    name = models.CharField(_("title"), max_length=100, help_text=_("Visitors read it."))
    agent = models.ForeignKey(
        Agent, models.CASCADE, related_name="widgets", verbose_name=_("agent")
    )
    group = models.ForeignKey(
        Group,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("reader group"),
        help_text=_("Visitors may read what this group may read; empty: only what is public."),
    )
    origins = ArrayField(
        models.CharField(max_length=300),
        default=list,
        blank=True,
        verbose_name=_("allowed origins"),
        help_text=_("Sites that may show the chat, one a line: https://www.example.com"),
    )
    colour = models.CharField(
        _("colour"),
        max_length=7,
        default="#6d28d9",
        validators=[RegexValidator(r"\A#[0-9a-fA-F]{6}\Z")],
    )
    requests_per_minute = models.PositiveIntegerField(
        _("requests a minute"),
        default=60,
        validators=[MinValueValidator(1), MaxValueValidator(10_000)],
        help_text=_("Of one address. A question takes about four."),
    )
    is_enabled = models.BooleanField(_("enabled"), default=True)
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
        verbose_name = _("widget")
        verbose_name_plural = _("widgets")
        ordering = ["name", "id"]

    def __str__(self) -> str:
        return self.name

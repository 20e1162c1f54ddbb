"""Connections: a store that follows an origin through a connector, and the runs of its syncs."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from rag.core.access import Scope
from rag.models.store import Store, editable_by
from rag.models.user_link import user_link


class ConnectionQuerySet(models.QuerySet["Connection"]):
    """Connections as a caller may see them: they tell where documents come from."""

    def readable(self, scope: Scope) -> Self:
        """Return the connections of stores that ``scope`` may change."""
        return self.filter(editable_by(scope, "store__"))

    def editable(self, scope: Scope) -> Self:
        """Return the same."""
        return self.readable(scope)


class Connection(models.Model):
    """A store follows an origin: by which connector, with which options, how often.

    Its files are those with ``metadata.sync`` equal to its name. ``cursor`` is where the last
    complete sync ended, in the connector's own words.
    """

    class Schedule(models.TextChoices):
        """How often a connection is synced by itself."""

        BY_HAND = "", _("only by hand")
        QUARTER = "15m", _("every 15 minutes")
        HOURLY = "1h", _("every hour")
        SIX_HOURS = "6h", _("every 6 hours")
        DAILY = "1d", _("every day")
        WEEKLY = "7d", _("every week")

    EVERY = {
        "15m": timedelta(minutes=15),
        "1h": timedelta(hours=1),
        "6h": timedelta(hours=6),
        "1d": timedelta(days=1),
        "7d": timedelta(days=7),
    }

    store = models.ForeignKey(
        Store, models.CASCADE, related_name="connections", verbose_name=_("store")
    )
    name = models.CharField(
        _("name"),
        max_length=200,
        help_text=_("Its files have it as their metadata “sync”; it cannot be changed."),
    )
    connector = models.CharField(_("connector"), max_length=40)
    options = models.JSONField(_("options"), default=dict, blank=True)
    schedule = models.CharField(
        _("schedule"), max_length=5, choices=Schedule, blank=True, default=Schedule.BY_HAND
    )
    max_documents = models.PositiveIntegerField(
        _("most documents"),
        default=10_000,
        validators=[MinValueValidator(1), MaxValueValidator(1_000_000)],
        help_text=_("What is beyond is told and left out."),
    )
    max_minutes = models.PositiveIntegerField(
        _("most minutes of a sync"),
        default=60,
        validators=[MinValueValidator(1), MaxValueValidator(24 * 60)],
        help_text=_("A sync that takes longer ends early; the next one goes on."),
    )
    cursor = models.TextField(blank=True, default="", editable=False)
    next_run_at = models.DateTimeField(_("next sync"), null=True, editable=False, db_index=True)
    created_by = user_link(_("created by"), blank=True, db_index=False, editable=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated"), auto_now=True)

    objects = ConnectionQuerySet.as_manager()

    class Meta:
        verbose_name = _("connection")
        verbose_name_plural = _("connections")
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["store", "name"], name="rag_connection_name")
        ]

    def __str__(self) -> str:
        return self.name


class SyncRunQuerySet(models.QuerySet["SyncRun"]):
    """Runs as a caller may see them."""

    def readable(self, scope: Scope) -> Self:
        """Return the runs of stores that ``scope`` may change."""
        return self.filter(editable_by(scope, "connection__store__"))

    def editable(self, scope: Scope) -> Self:
        """Return the same."""
        return self.readable(scope)


class SyncRun(models.Model):
    """One sync of a connection: progress, counts, and what was done and could not be done.

    ``counts`` are by outcome: new, changed, renamed, deleted, restricted, same, failed, skipped,
    duplicate, kept. ``steps`` are the first of what was done, with ``what``, ``path`` and, for what
    failed or was skipped, ``error``.
    """

    class State(models.TextChoices):
        """Where a run is."""

        WAITING = "waiting", _("waiting")
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    class Trigger(models.TextChoices):
        """What started a run."""

        PERSON = "person", _("by hand")
        SCHEDULE = "schedule", _("by the schedule")
        COMMAND = "command", _("by a command")

    BUSY = ("waiting", "running")

    connection = models.ForeignKey(
        Connection, models.CASCADE, related_name="runs", verbose_name=_("connection")
    )
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.WAITING)
    trigger = models.CharField(_("started"), max_length=10, choices=Trigger, default=Trigger.PERSON)
    is_dry_run = models.BooleanField(_("dry run"), default=False)
    is_forced = models.BooleanField(_("by force"), default=False)
    n_listed = models.PositiveIntegerField(_("documents listed"), default=0)
    counts = models.JSONField(_("figures"), default=dict)
    steps = models.JSONField(_("steps"), default=list)
    error = models.JSONField(_("error"), null=True)
    created_by = user_link(_("created by"), blank=True, db_index=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    seen_at = models.DateTimeField(_("last sign of life"), auto_now=True)
    ended_at = models.DateTimeField(_("ended"), null=True)

    objects = SyncRunQuerySet.as_manager()

    class Meta:
        verbose_name = _("sync run")
        verbose_name_plural = _("sync runs")
        ordering = ["-id"]
        constraints = [
            # Pressed twice, or pressed while the schedule runs it, an order is one run.
            models.UniqueConstraint(
                fields=["connection"],
                name="rag_sync_one_at_a_time",
                condition=models.Q(state__in=("waiting", "running")),
            )
        ]

    def __str__(self) -> str:
        return f"{self.pk}"

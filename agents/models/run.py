"""Flow runs and their event log, from which a run is resumed and replayed."""

from __future__ import annotations

import uuid
from typing import Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents.core.chat_events import FlowEvent
from agents.models.flow import FlowVersion
from rag.core.access import Scope


class FlowRunQuerySet(models.QuerySet["FlowRun"]):
    """Runs as a caller may see them."""

    def readable(self, scope: Scope) -> Self:
        """Return somebody's own runs, for operators all.

        Runs of nobody are seen by everybody who knows their key: never list them for nobody.
        """
        if scope.is_operator:
            return self.all()
        return self.filter(user_id=scope.user_id, is_by_operator=False)


class FlowRun(models.Model):
    """One run of a version. ``state`` is that of the start, later that of the end or a pause."""

    class Status(models.TextChoices):
        """Where a run stands."""

        RUNNING = "running", _("running")
        PAUSED = "paused", _("waits for a decision")
        DONE = "done", _("done")
        ERROR = "error", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    key = models.UUIDField(_("key"), default=uuid.uuid4, unique=True, editable=False)
    version = models.ForeignKey(
        FlowVersion, models.CASCADE, related_name="runs", verbose_name=_("version")
    )
    status = models.CharField(
        _("status"), max_length=10, choices=Status, default=Status.RUNNING, db_index=True
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="flow_runs",
        verbose_name=_("user"),
    )
    is_by_operator = models.BooleanField(default=False, editable=False)
    # Whose budget its models are on, also when another process goes on with it.
    key_id = models.BigIntegerField(null=True, editable=False)
    start = models.JSONField(_("start state"), default=dict)
    state = models.JSONField(_("end state"), null=True)
    # What it has found, by the numbers that its texts cite, and what it answered: as people are
    # shown it, and what its passages say of each sentence.
    passages = models.JSONField(_("passages"), default=list, blank=True)
    # All that it rests on, of a replay also what the run before it does.
    chunk_ids = ArrayField(models.BigIntegerField(), default=list, editable=False)
    answer = models.TextField(_("answer"), blank=True)
    outcome = models.CharField(_("outcome"), max_length=20, blank=True)
    citations = models.JSONField(_("citations"), default=list, blank=True)
    grounding = models.JSONField(_("grounding"), default=dict, blank=True)
    reviews = models.JSONField(_("pending reviews"), default=list, blank=True)
    error = models.JSONField(_("error"), null=True)
    model = models.CharField(_("model instead of the flow's own"), max_length=300, blank=True)
    replay_of = models.ForeignKey(
        "self",
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="replays",
        verbose_name=_("replay of"),
    )
    has_recorded_answers = models.BooleanField(
        _("recorded answers"), default=False, help_text=_("Models are not asked again.")
    )
    n_steps = models.PositiveIntegerField(_("steps"), default=0)
    input_tokens = models.PositiveBigIntegerField(_("input tokens"), default=0)
    output_tokens = models.PositiveBigIntegerField(_("output tokens"), default=0)
    started_at = models.DateTimeField(_("started"), auto_now_add=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)
    # Who works on it: a process that gives no sign of life loses it to another.
    worker = models.UUIDField(null=True, editable=False)
    seen_at = models.DateTimeField(null=True, editable=False)

    objects = FlowRunQuerySet.as_manager()

    class Meta:
        verbose_name = _("flow run")
        verbose_name_plural = _("flow runs")
        ordering = ["-id"]
        indexes = [GinIndex(fields=["chunk_ids"], name="agents_flowrun_chunks")]

    def __str__(self) -> str:
        return f"{self.version} {self.key}"


class RunEvent(models.Model):
    """One event of a run; ``record`` is what a continued run takes instead of working again.

    ``trace`` is what only whoever looks into the run wants to know.
    """

    run = models.ForeignKey(
        FlowRun, models.CASCADE, related_name="events", verbose_name=_("run"), db_index=False
    )
    seq = models.PositiveIntegerField(_("number"))
    kind = models.CharField(_("kind"), max_length=20)
    # A node inside another has the names of both.
    node = models.CharField(_("node"), max_length=400, blank=True)
    visit = models.PositiveIntegerField(_("visit"), default=0)
    data = models.JSONField(_("data"), default=dict)
    # JSON as text: jsonb would sort the keys, and prompts show sources and columns in their order.
    record = models.TextField(null=True, editable=False)
    # JSON too: prompts as they were sent, and the values that conditions were asked of.
    trace = models.TextField(null=True, editable=False)
    at = models.DateTimeField(_("at"), auto_now_add=True)

    class Meta:
        verbose_name = _("run event")
        verbose_name_plural = _("run events")
        ordering = ["run", "seq"]
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="agents_event_seq")]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind} {self.node}".strip()

    @property
    def event(self) -> FlowEvent:
        """Return it as everybody is told it: without the record."""
        return FlowEvent(self.seq, self.kind, self.node, self.data, self.at)

"""Usage records of model calls in tokens and money, and the budgets that limit them."""

from __future__ import annotations

from typing import Self

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from rag.core.access import Scope
from rag.models.api_key import ApiKey
from rag.models.store import Store
from rag.models.user_link import user_link


class UsageQuerySet(models.QuerySet["UsageRecord"]):
    """Records as a caller may see them: operators all, others their own and their keys'."""

    def readable(self, scope: Scope) -> Self:
        """Return one's own records; a key for some stores sees what was asked with that key."""
        if scope.only_store_ids is not None:
            return self.filter(key_id=scope.key_id) if scope.key_id else self.none()
        if scope.is_operator:
            return self
        if scope.user_id is None:
            return self.none()
        return self.filter(Q(user_id=scope.user_id) | Q(key__user_id=scope.user_id))


class UsageRecord(models.Model):
    """One call of a model; tokens are None where nobody counted, cost where no price is known."""

    class Kind(models.TextChoices):
        """What the call was for."""

        FILE_SEARCH = "fileSearch", _("question to a store")
        MULTIMODAL = "multimodal", _("question to files")
        ASK = "ask", _("cited answer")
        CHAT = "chat", _("answer of an agent")
        FLOW = "flow", _("node of a flow")
        RERANK = "rerank", _("reranking")
        ANALYSIS = "analysis", _("analysis of a question")
        EMBEDDING = "embedding", _("vectors of texts")
        QUERY = "query", _("vector of a question")
        TOOL = "tool", _("tool")
        OTHER = "other", _("other work")

    class Outcome(models.TextChoices):
        """How the call ended; what was written until then is counted in any case."""

        OK = "ok", _("done")
        STOPPED = "stopped", _("stopped")
        FAILED = "failed", _("failed")

    kind = models.CharField(_("kind"), max_length=20, choices=Kind)
    provider = models.CharField(_("provider"), max_length=40)
    model = models.CharField(_("model"), max_length=200)
    input_tokens = models.PositiveIntegerField(_("input tokens"), null=True)
    output_tokens = models.PositiveIntegerField(_("output tokens"), null=True)
    is_estimated = models.BooleanField(
        _("estimated"), default=False, help_text=_("The service told no count; we counted.")
    )
    cost = models.DecimalField(_("cost"), max_digits=18, decimal_places=9, null=True)
    currency = models.CharField(_("currency"), max_length=3, blank=True, default="")
    outcome = models.CharField(
        _("outcome"), max_length=10, choices=Outcome, default=Outcome.OK, db_default=Outcome.OK
    )
    duration_ms = models.FloatField(_("duration in ms"), null=True)
    prompt_sha256 = models.CharField(max_length=64, blank=True, default="", editable=False)
    user = user_link(_("user"), db_index=False)
    key = models.ForeignKey(
        ApiKey, models.SET_NULL, null=True, related_name="+", verbose_name=_("key"), db_index=False
    )
    store = models.ForeignKey(
        Store, models.SET_NULL, null=True, related_name="+", verbose_name=_("store"), db_index=False
    )
    agent = models.CharField(_("agent or flow"), max_length=100, blank=True, default="")
    run = models.CharField(
        _("run"),
        max_length=40,
        blank=True,
        default="",
        help_text=_("The key of the answer or of the flow's run that the call was made for."),
    )
    created_at = models.DateTimeField(_("asked"), auto_now_add=True, db_index=True)

    objects = UsageQuerySet.as_manager()

    class Meta:
        verbose_name = _("model usage record")
        verbose_name_plural = _("model usage")
        ordering = ["-id"]
        indexes = [
            models.Index(
                fields=["key", "created_at"], condition=Q(key__isnull=False), name="rag_usage_key"
            ),
            models.Index(fields=["run"], condition=~Q(run=""), name="rag_usage_run"),
        ]

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


class Budget(models.Model):
    """What a key may use up in a day or month, in tokens, in money, or both.

    ``spent_…`` are of the period that began at ``period_start``; an older period's are void.
    """

    class Period(models.TextChoices):
        """When a budget begins anew, in the installation's time zone."""

        DAY = "day", _("a day")
        MONTH = "month", _("a month")

    key = models.ForeignKey(
        ApiKey, models.CASCADE, related_name="budgets", verbose_name=_("key"), db_index=False
    )
    period = models.CharField(_("period"), max_length=10, choices=Period, default=Period.MONTH)
    max_tokens = models.PositiveBigIntegerField(
        _("max tokens"), null=True, blank=True, validators=[MinValueValidator(1)]
    )
    max_cost = models.DecimalField(
        _("max cost"),
        max_digits=14,
        decimal_places=4,
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
    )
    currency = models.CharField(_("currency"), max_length=3, blank=True, default="USD")
    period_start = models.DateTimeField(_("since"), null=True, editable=False)
    spent_tokens = models.BigIntegerField(_("tokens used"), default=0, editable=False)
    spent_cost = models.DecimalField(
        _("money used"), max_digits=18, decimal_places=9, default=0, editable=False
    )

    class Meta:
        verbose_name = _("budget")
        verbose_name_plural = _("budgets")
        ordering = ["key", "period"]
        constraints = [
            models.UniqueConstraint(fields=["key", "period"], name="rag_budget_once"),
            models.CheckConstraint(
                condition=Q(max_tokens__isnull=False) | Q(max_cost__isnull=False),
                name="rag_budget_has_limit",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.key} ({self.get_period_display()})"


class BudgetHold(models.Model):
    """What a call that is at work may still use up; gone when it ends or is surely dead."""

    key = models.ForeignKey(ApiKey, models.CASCADE, related_name="+")
    tokens = models.PositiveBigIntegerField()
    cost = models.DecimalField(max_digits=18, decimal_places=9, null=True)
    currency = models.CharField(max_length=3, blank=True, default="")
    expires_at = models.DateTimeField()

    class Meta:
        default_permissions = ()

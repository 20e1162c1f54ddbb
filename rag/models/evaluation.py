"""Evaluation runs of a store and their results per golden question."""

from __future__ import annotations

from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from rag.core.access import Scope
from rag.models.golden import GoldenQuestion
from rag.models.space import EmbeddingSpace
from rag.models.store import Store, editable_by
from rag.models.user_link import user_link


class EvaluationRunQuerySet(models.QuerySet["EvaluationRun"]):
    """Runs as a caller may see them: they tell the golden questions."""

    def readable(self, scope: Scope) -> Self:
        """Return the runs of stores that ``scope`` may change."""
        return self.filter(editable_by(scope, "store__"))

    def editable(self, scope: Scope) -> Self:
        """Return the same."""
        return self.readable(scope)

    def done(self) -> Self:
        """Return the runs that have figures."""
        return self.filter(state=EvaluationRun.State.DONE)


class EvaluationRun(models.Model):
    """A store's golden questions asked once, by settings and in a space that the row tells.

    Until it is done ``n_questions`` counts what there is to ask, ``n_done`` what was asked.
    ``metrics`` are means over the results: R@1, R@5, R@10, MRR@10, nDCG@10 and, where answers were
    asked for, citation_precision, refusal_rate and expected_cited.
    """

    class State(models.TextChoices):
        """Where a run is."""

        WAITING = "waiting", _("waiting")
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    BUSY = ("waiting", "running")

    store = models.ForeignKey(
        Store, models.CASCADE, related_name="evaluation_runs", verbose_name=_("store")
    )
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.DONE)
    error = models.JSONField(_("error"), null=True)
    space = models.ForeignKey(
        EmbeddingSpace,
        models.SET_NULL,
        null=True,
        related_name="evaluation_runs",
        verbose_name=_("space"),
    )
    model = models.CharField(_("embedding model"), max_length=200)
    chat_model = models.CharField(_("chat model"), max_length=200, blank=True)
    settings = models.JSONField(_("settings"), default=dict)
    settings_hash = models.CharField(_("settings' hash"), max_length=16, db_index=True)
    label = models.CharField(_("label"), max_length=200, blank=True)
    n_questions = models.PositiveIntegerField(_("questions"), default=0)
    n_done = models.PositiveIntegerField(_("questions asked"), default=0)
    n_lost = models.PositiveIntegerField(
        _("unmatched passages"),
        default=0,
        help_text=_("Expected passages that their files no longer hold; not measured."),
    )
    metrics = models.JSONField(_("figures"), default=dict)
    took_ms = models.FloatField(_("time in ms"), default=0.0)
    created_by = user_link(_("created by"), blank=True, db_index=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    objects = EvaluationRunQuerySet.as_manager()

    class Meta:
        verbose_name = _("evaluation run")
        verbose_name_plural = _("evaluation runs")
        ordering = ["-id"]
        constraints = [
            # Pressed twice, an order is one run.
            models.UniqueConstraint(
                fields=["store", "settings_hash"],
                name="rag_evaluation_one_at_a_time",
                condition=models.Q(state__in=("waiting", "running")),
            )
        ]

    def __str__(self) -> str:
        return f"{self.pk}"


class EvaluationResult(models.Model):
    """One question of a run: what was found, at which ranks, with which figures.

    ``answer`` is None, or counts: citations, verified, is_refused, cites_expected.
    """

    run = models.ForeignKey(
        EvaluationRun, models.CASCADE, related_name="results", verbose_name=_("run")
    )
    question = models.ForeignKey(
        GoldenQuestion,
        models.SET_NULL,
        null=True,
        related_name="results",
        verbose_name=_("golden question"),
    )
    query = models.TextField(_("question"))
    n_expected = models.PositiveIntegerField(_("expected"))
    chunk_ids = ArrayField(models.BigIntegerField(), verbose_name=_("hits"))
    ranks = ArrayField(models.PositiveIntegerField(), verbose_name=_("found at"))
    metrics = models.JSONField(_("figures"), default=dict)
    answer = models.JSONField(_("answer"), null=True)

    class Meta:
        verbose_name = _("result of a question")
        verbose_name_plural = _("results of questions")
        ordering = ["run_id", "id"]
        constraints = [
            models.UniqueConstraint(fields=["run", "question"], name="rag_result_once_a_run")
        ]

    def __str__(self) -> str:
        return self.query[:80]

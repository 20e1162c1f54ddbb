"""Reindex runs of a store, including moves to another embedding space."""

from __future__ import annotations

from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from rag.core.access import Scope
from rag.models.space import EmbeddingSpace
from rag.models.store import Store, editable_by
from rag.models.user_link import user_link


class ReindexRunQuerySet(models.QuerySet["ReindexRun"]):
    """Runs as a caller may see them."""

    def readable(self, scope: Scope) -> Self:
        """Return the runs of stores that ``scope`` may change."""
        return self.filter(editable_by(scope, "store__"))

    def moves(self) -> Self:
        """Return the moves that are under way: both spaces are written to."""
        return self.filter(target__isnull=False, state__in=ReindexRun.OPEN)


class ReindexRun(models.Model):
    """One order to index a store anew: what, how far it is, and how it ended.

    A run with ``target`` moves its store from the space ``source`` to that one. While it is open
    every change of a chunk goes to both spaces.
    """

    class What(models.TextChoices):
        """What is made anew."""

        PARSE = "parse", _("text and chunks")
        CHUNKS = "chunks", _("chunks")
        EMBEDDINGS = "embeddings", _("vectors")
        LEXICAL = "lexical", _("words")
        ALL = "all", _("everything")

    class State(models.TextChoices):
        """Where a run is."""

        WAITING = "waiting", _("waiting")
        RUNNING = "running", _("running")
        READY = "ready", _("ready to swap")
        REFUSED = "refused", _("refused by the quality gate")
        SWAPPED = "swapped", _("swapped")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    # A failed move goes on when it is resumed; until then its new space is kept up.
    OPEN = ("waiting", "running", "ready", "refused", "swapped", "failed")
    BUSY = ("waiting", "running")

    store = models.ForeignKey(
        Store, models.CASCADE, related_name="reindex_runs", verbose_name=_("store")
    )
    what = models.CharField(_("what"), max_length=10, choices=What)
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.WAITING)
    stage = models.CharField(_("stage"), max_length=20, blank=True)
    file_ids = ArrayField(
        models.BigIntegerField(),
        verbose_name=_("files"),
        null=True,
        help_text=_("Empty: all files of the store."),
    )
    model = models.CharField(_("embedding model"), max_length=200, blank=True)
    source = models.ForeignKey(
        EmbeddingSpace, models.SET_NULL, null=True, related_name="+", verbose_name=_("from space")
    )
    target = models.ForeignKey(
        EmbeddingSpace, models.SET_NULL, null=True, related_name="+", verbose_name=_("to space")
    )
    options = models.JSONField(
        _("options"),
        default=dict,
        help_text=_("Workers, chunks a second, margin, data folder, force."),
    )
    position = models.BigIntegerField(_("position"), default=0)
    n_total = models.BigIntegerField(_("in all"), default=0)
    n_done = models.BigIntegerField(_("done"), default=0)
    n_failed = models.BigIntegerField(_("failed"), default=0)
    report = models.JSONField(
        _("report"), default=dict, help_text=_("Recall, figures of both spaces, who decided what.")
    )
    error = models.JSONField(_("error"), null=True)
    created_by = user_link(_("created by"), blank=True, db_index=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    started_at = models.DateTimeField(_("begun"), null=True)
    swapped_at = models.DateTimeField(_("swapped"), null=True)
    ended_at = models.DateTimeField(_("ended"), null=True)

    objects = ReindexRunQuerySet.as_manager()

    class Meta:
        verbose_name = _("reindex run")
        verbose_name_plural = _("reindex runs")
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["store"],
                name="rag_reindex_one_at_a_time",
                condition=Q(state__in=("waiting", "running"), what__in=("embeddings", "lexical")),
            ),
            models.UniqueConstraint(
                fields=["store"],
                name="rag_reindex_one_move",
                condition=Q(target__isnull=False)
                & Q(state__in=("waiting", "running", "ready", "refused", "swapped", "failed")),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pk}"

"""Query log: what was asked, with which settings, and how long each part took."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils.translation import gettext_lazy as _

from rag.models.user_link import user_link


class QueryLog(models.Model):
    """One search or question with the settings and times that belong to it."""

    class Kind(models.TextChoices):
        """What the caller wanted."""

        SEARCH = "search", _("search")
        ASK = "ask", _("question")

    kind = models.CharField(_("kind"), max_length=10, choices=Kind, default=Kind.SEARCH)
    query = models.TextField(_("query"))
    user = user_link(_("user"), db_index=False)
    store_ids = ArrayField(models.BigIntegerField(), verbose_name=_("stores"))
    settings_hash = models.CharField(max_length=16)
    mode = models.CharField(_("mode"), max_length=10)
    top_k = models.PositiveIntegerField(_("top k"))
    chunk_ids = ArrayField(models.BigIntegerField(), verbose_name=_("hits"))
    best_score = models.FloatField(_("best score"), null=True)
    confidence = models.FloatField(
        _("confidence"),
        null=True,
        help_text=_("0 to 1: how sure the search was of its best hit."),
    )
    timings_ms = models.JSONField(_("times in ms"), default=dict)
    answer = models.TextField(_("answer"), blank=True)
    citations = models.JSONField(_("citations"), default=list, blank=True)
    created_at = models.DateTimeField(_("asked"), auto_now_add=True, db_index=True)

    class Meta:
        verbose_name = _("query")
        verbose_name_plural = _("query log")
        ordering = ["-id"]
        # What is deleted is looked for in kept answers.
        indexes = [GinIndex(fields=["chunk_ids"], name="rag_querylog_chunks")]

    def __str__(self) -> str:
        return self.query[:80]

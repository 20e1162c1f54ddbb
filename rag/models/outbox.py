"""Outbox: changed chunks that another search engine has yet to copy. Only triggers write it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

# What stands for the words in place of a space: no space has this number.
WORDS = 0


class OutboxRow(models.Model):
    """One change of a chunk's vector in a space, or of its words.

    It tells that something changed, never what: whoever feeds the engine reads the chunk as it is
    then. ``fed_at`` None waits; what was fed stays for some seconds, until every search sees it.
    """

    space_id = models.IntegerField(_("embedding space"))
    chunk_id = models.BigIntegerField(_("chunk"))
    at = models.DateTimeField(_("changed at"), db_default=Now())
    fed_at = models.DateTimeField(_("fed at"), null=True)

    class Meta:
        db_table = "rag_outbox"
        default_permissions = ()
        verbose_name = _("change for the search engine")
        verbose_name_plural = _("changes for the search engine")
        indexes = [
            models.Index(fields=["space_id", "-id"], name="rag_outbox_space"),
            models.Index(
                fields=["id"], condition=Q(fed_at__isnull=True), name="rag_outbox_waiting"
            ),
            models.Index(
                fields=["fed_at"], condition=Q(fed_at__isnull=False), name="rag_outbox_fed"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.chunk_id} @ {self.space_id}"

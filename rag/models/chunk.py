"""Chunks and what they said before."""

from __future__ import annotations

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from rag.core.access import Scope
from rag.models.file import File, file_readable_by
from rag.models.store import Store, editable_by


class ChunkQuerySet(models.QuerySet["Chunk"]):
    """Chunks as a caller may see them."""

    def readable(self, scope: Scope) -> Self:
        """Return the chunks of files that ``scope`` may read."""
        return self.filter(file_readable_by(scope, "file__"))

    def editable(self, scope: Scope) -> Self:
        """Return the chunks of stores that ``scope`` may change."""
        return self.filter(editable_by(scope, "store__"))

    def live(self) -> Self:
        """Return the chunks of the files' current revisions."""
        return self.filter(is_live=True)


class Chunk(models.Model):
    """A span of a file's canonical text: ``canonical[char_start:char_end] == text``.

    A chunk that a newer file revision no longer holds is kept with ``is_live`` False: it is in
    no index, but citations that pin it still open.
    """

    file = models.ForeignKey(
        File, models.CASCADE, related_name="chunks", verbose_name=_("file"), db_index=False
    )
    store = models.ForeignKey(Store, models.CASCADE, related_name="chunks", verbose_name=_("store"))
    ordinal = models.PositiveIntegerField(_("position"))
    char_start = models.PositiveIntegerField(_("start"))
    char_end = models.PositiveIntegerField(_("end"))
    own_start = models.PositiveIntegerField(_("own start"))
    page_first = models.PositiveIntegerField(_("first page"), null=True)
    page_last = models.PositiveIntegerField(_("last page"), null=True)
    heading_path = models.JSONField(_("heading path"), default=list, blank=True)
    block_kinds = models.JSONField(_("block kinds"), default=list, blank=True)
    token_count = models.PositiveIntegerField(_("tokens"))
    content_type = models.CharField(_("content type"), max_length=60, default="document")
    text = models.TextField(_("text"))
    context = models.TextField(_("carried header"), blank=True)
    sha256 = models.CharField(max_length=64, editable=False)
    enabled = models.BooleanField(
        _("enabled"), default=True, help_text=_("Only enabled chunks are found.")
    )
    is_live = models.BooleanField(_("live"), default=True, editable=False)
    revision = models.PositiveIntegerField(_("revision"), default=1, editable=False)
    file_revision = models.PositiveIntegerField(_("file revision"), default=1, editable=False)
    edited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, editable=False,
        related_name="+", verbose_name=_("edited by"), db_index=False,
    )  # fmt: skip

    objects = ChunkQuerySet.as_manager()

    class Meta:
        verbose_name = _("chunk")
        verbose_name_plural = _("chunks")
        ordering = ["file_id", "ordinal"]
        indexes = [
            models.Index(fields=["file", "ordinal"], name="rag_chunk_file"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["file", "ordinal"], condition=Q(is_live=True), name="rag_chunk_once",
            ),
            models.CheckConstraint(
                condition=Q(char_start__lte=models.F("own_start"))
                & Q(own_start__lte=models.F("char_end")),
                name="rag_chunk_span_order",
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        return f"{self.file_id}#{self.ordinal}"


class ChunkRevision(models.Model):
    """What a chunk said before an edit; citations pin (chunk, revision)."""

    chunk = models.ForeignKey(
        Chunk, models.CASCADE, related_name="revisions", verbose_name=_("chunk")
    )
    revision = models.PositiveIntegerField(_("revision"))
    text = models.TextField(_("text"))
    char_start = models.PositiveIntegerField(_("start"))
    char_end = models.PositiveIntegerField(_("end"))
    page_first = models.PositiveIntegerField(_("first page"), null=True)
    page_last = models.PositiveIntegerField(_("last page"), null=True)
    file_revision = models.PositiveIntegerField(_("file revision"))
    replaced_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+",
        verbose_name=_("replaced by"),
    )  # fmt: skip
    replaced_at = models.DateTimeField(_("replaced"), auto_now_add=True)

    class Meta:
        verbose_name = _("chunk revision")
        verbose_name_plural = _("chunk revisions")
        ordering = ["chunk_id", "-revision"]
        constraints = [
            models.UniqueConstraint(fields=["chunk", "revision"], name="rag_revision_once")
        ]

    def __str__(self) -> str:
        return f"{self.chunk_id} r{self.revision}"

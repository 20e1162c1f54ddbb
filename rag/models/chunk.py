"""Chunks, their revisions, conflicts of edits with a new file revision, and deleted spans."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from rag.core.access import Scope
from rag.models.file import File, file_readable_by
from rag.models.store import Store, editable_by
from rag.models.user_link import user_link


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

    That holds for parsed chunks. An edited one has its own text and lies at the span that it
    replaces; an added one lies at a place, an empty span. A chunk that a newer file revision no
    longer holds is kept with ``is_live`` False: it is in no index, but citations that pin it still
    open.
    """

    class Origin(models.TextChoices):
        """Who wrote the text."""

        PARSED = "parsed", _("from the file")
        EDITED = "edited", _("edited")
        ADDED = "added", _("added by hand")

    FIRST_ADDED = 1_000_000_000

    file = models.ForeignKey(
        File, models.CASCADE, related_name="chunks", verbose_name=_("file"), db_index=False
    )
    store = models.ForeignKey(
        Store, models.CASCADE, related_name="chunks", verbose_name=_("store"), db_index=False
    )
    # In order of the cut; those that were added count from FIRST_ADDED. Ends are in order for all.
    ordinal = models.PositiveIntegerField(_("position"))
    char_start = models.PositiveIntegerField(_("start"))
    char_end = models.PositiveIntegerField(_("end"))
    own_start = models.PositiveIntegerField(_("own start"))
    # Of the passage that it is shown with: chunks of one file with the same value.
    parent_start = models.PositiveIntegerField(null=True, editable=False)
    page_first = models.PositiveIntegerField(_("first page"), null=True)
    page_last = models.PositiveIntegerField(_("last page"), null=True)
    heading_path = models.JSONField(_("heading path"), default=list, blank=True)
    block_kinds = models.JSONField(_("block kinds"), default=list, blank=True)
    token_count = models.PositiveIntegerField(_("tokens"))
    content_type = models.CharField(_("content type"), max_length=60, default="document")
    text = models.TextField(_("text"))
    context = models.TextField(_("carried header"), blank=True)
    # Of the text as it was parsed, also where it was edited since.
    sha256 = models.CharField(max_length=64, editable=False)
    origin = models.CharField(
        _("origin"),
        max_length=10,
        choices=Origin,
        default=Origin.PARSED,
        db_default=Origin.PARSED,
        editable=False,
    )
    enabled = models.BooleanField(
        _("enabled"), default=True, help_text=_("Only enabled chunks are found.")
    )
    is_live = models.BooleanField(_("live"), default=True, editable=False)
    revision = models.PositiveIntegerField(_("revision"), default=1, editable=False)
    file_revision = models.PositiveIntegerField(_("file revision"), default=1, editable=False)
    edited_by = user_link(_("edited by"), blank=True, editable=False, db_index=False)

    objects = ChunkQuerySet.as_manager()

    class Meta:
        verbose_name = _("chunk")
        verbose_name_plural = _("chunks")
        ordering = ["file_id", "char_end", "ordinal"]
        indexes = [
            models.Index(fields=["file", "char_end", "ordinal"], name="rag_chunk_place"),
            # Lists go store by store.
            models.Index(
                fields=["store", "file", "char_end", "ordinal"], name="rag_chunk_of_store"
            ),
            # What is shown with a chunk that was found.
            models.Index(
                fields=["file", "parent_start"],
                condition=Q(parent_start__isnull=False, is_live=True),
                name="rag_chunk_passage",
            ),
            # What a new revision of the file must not lose.
            models.Index(
                fields=["file"],
                condition=~Q(origin="parsed") | Q(enabled=False),
                name="rag_chunk_touched",
            ),
            # Few beside the live ones; kept for citations.
            models.Index(
                fields=["store", "file", "char_end", "ordinal"],
                condition=Q(is_live=False),
                name="rag_chunk_replaced",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["file", "ordinal"],
                condition=Q(is_live=True),
                name="rag_chunk_once",
            ),
            models.CheckConstraint(
                condition=Q(char_start__lte=models.F("own_start"))
                & Q(own_start__lte=models.F("char_end")),
                name="rag_chunk_span_order",
            ),
        ]

    def __str__(self) -> str:
        # Only what is at hand: a list of chunks would ask for each.
        file = self.file.name if Chunk.file.is_cached(self) else str(self.file_id)
        start = " ".join(self.__dict__.get("text", "")[:60].split())
        return f"{file} #{self.position}{': ' if start else ''}{start}"

    @property
    def position(self) -> str:
        """Return the ordinal for people: ``+1`` is the first chunk that was added."""
        is_added = self.ordinal >= self.FIRST_ADDED
        return f"+{self.ordinal - self.FIRST_ADDED + 1}" if is_added else str(self.ordinal)


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
    replaced_by = user_link(_("replaced by"))
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


class ChunkConflict(models.Model):
    """Somebody's work on a chunk that has no place in the file's new text; a person decides.

    The chunk holds the text: retired where it was edited or switched off, live where it was added.
    ``char_start`` is where it may belong now.
    """

    file = models.ForeignKey(File, models.CASCADE, related_name="conflicts", verbose_name=_("file"))
    chunk = models.OneToOneField(
        Chunk, models.CASCADE, related_name="conflict", verbose_name=_("chunk")
    )
    char_start = models.PositiveIntegerField(_("start"))
    file_revision = models.PositiveIntegerField(_("file revision"))
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("chunk conflict")
        verbose_name_plural = _("chunk conflicts")
        ordering = ["-id"]

    def __str__(self) -> str:
        return str(self.chunk_id)


class DroppedSpan(models.Model):
    """A passage whose chunk somebody deleted: reading the file again makes none of it."""

    file = models.ForeignKey(
        File, models.CASCADE, related_name="dropped_spans", verbose_name=_("file")
    )
    char_start = models.PositiveIntegerField(_("start"))
    char_end = models.PositiveIntegerField(_("end"))
    dropped_by = user_link(_("deleted by"))
    dropped_at = models.DateTimeField(_("deleted"), auto_now_add=True)

    class Meta:
        verbose_name = _("deleted passage")
        verbose_name_plural = _("deleted passages")
        ordering = ["file_id", "char_start"]

    def __str__(self) -> str:
        return f"{self.file_id} {self.char_start}-{self.char_end}"

"""Files: one document in a store, from upload to canonical text."""

from __future__ import annotations

from typing import Self

from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils.translation import gettext_lazy as _

from rag.core.access import Scope
from rag.core.documents import ChunkRule
from rag.core.errors import ForbiddenError
from rag.models.store import Store, editable_by, readable_by


def file_readable_by(scope: Scope, prefix: str = "") -> Q:
    """Return the SQL form of ``rag.core.access.may_read``; ``prefix`` leads to the file."""
    if scope.is_operator:
        return readable_by(scope, f"{prefix}store__")
    restrictions = File.restricted_to.through.objects.filter(file_id=OuterRef(f"{prefix}pk"))
    is_free = ~Exists(restrictions)
    is_in = Exists(restrictions.filter(group_id__in=scope.group_ids))
    store = f"{prefix}store__"
    return readable_by(scope, store) & (Q(is_free) | Q(is_in) | editable_by(scope, store))


# A file's large columns, to be deferred in queries for rows that lead to it.
_LARGE = ("canonical_text", "pages", "blocks", "metadata", "warnings", "progress", "error")
LARGE_FILE_FIELDS = tuple(f"file__{name}" for name in _LARGE)


class FileQuerySet(models.QuerySet["File"]):
    """Files as a caller may see them."""

    def readable(self, scope: Scope) -> Self:
        """Return the files that ``scope`` may read."""
        return self.filter(file_readable_by(scope))

    def editable(self, scope: Scope) -> Self:
        """Return the files of stores that ``scope`` may change."""
        return self.filter(editable_by(scope, "store__"))

    def light(self) -> Self:
        """Return the files without their texts and tables, for lists."""
        return self.defer("canonical_text", "pages", "blocks")


class File(models.Model):
    """One document in a store: original bytes, canonical text, page table, parse trace, status."""

    class Status(models.TextChoices):
        """What happens to the file now."""

        IDLE = "idle", _("idle")
        UPLOADING = "uploading", _("uploading")
        PROCESSING = "processing", _("processing")
        COMPLETED = "completed", _("completed")
        ERROR = "error", _("error")

    store = models.ForeignKey(Store, models.CASCADE, related_name="files", verbose_name=_("store"))
    name = models.CharField(_("name"), max_length=255)
    sha256 = models.CharField(max_length=64, editable=False)
    content = models.FileField(_("original"), max_length=300)
    size = models.BigIntegerField(_("size in bytes"), default=0, editable=False)
    kind = models.CharField(_("kind"), max_length=10, blank=True, editable=False)
    encoding = models.CharField(_("encoding"), max_length=40, blank=True)
    encoding_override = models.CharField(
        _("read as"),
        max_length=40,
        blank=True,
        default="",
        help_text=_("The encoding of a text, where it cannot be told from the bytes."),
    )
    status = models.CharField(
        _("status"), max_length=10, choices=Status, default=Status.IDLE, editable=False
    )
    error = models.JSONField(
        _("error"),
        null=True,
        blank=True,
        editable=False,
        help_text=_("Message, hint and values; translated when shown."),
    )
    progress = models.JSONField(_("progress"), default=dict, blank=True, editable=False)
    canonical_text = models.TextField(_("text"), blank=True, editable=False)
    pages = models.JSONField(_("page table"), default=list, blank=True, editable=False)
    blocks = models.JSONField(_("block table"), default=list, blank=True, editable=False)
    parser = models.CharField(_("parser"), max_length=80, blank=True, editable=False)
    warnings = models.JSONField(_("warnings"), default=list, blank=True, editable=False)
    content_type = models.CharField(
        _("content type"),
        max_length=60,
        default="document",
        help_text=_("A word that searches can filter by, such as document, character or outline."),
    )
    metadata = models.JSONField(_("metadata"), default=dict, blank=True)
    restricted_to = models.ManyToManyField(
        Group,
        blank=True,
        related_name="restricted_files",
        verbose_name=_("restricted to"),
        help_text=_("Empty: every reader of the store."),
    )
    max_tokens_per_chunk = models.PositiveIntegerField(_("chunk size"), null=True, editable=False)
    max_overlap_tokens = models.PositiveIntegerField(_("overlap"), null=True, editable=False)
    splitter = models.CharField(
        _("chunking template"),
        max_length=40,
        blank=True,
        default="",
        db_default="",
        help_text=_("Empty: the template of the store. The file is cut anew when it is changed."),
    )
    remote_name = models.CharField(
        _("name at Gemini"), max_length=300, blank=True, default="", editable=False
    )
    revision = models.PositiveIntegerField(_("revision"), default=0, editable=False)
    n_chunks = models.PositiveIntegerField(_("chunks"), default=0, editable=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated"), auto_now=True)

    objects = FileQuerySet.as_manager()

    class Meta:
        verbose_name = _("file")
        verbose_name_plural = _("files")
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["store", "sha256"], name="rag_file_once_a_store")
        ]
        indexes = [
            # Enough to count by, without the rows.
            models.Index(fields=["store", "status"], include=["n_chunks"], name="rag_file_status"),
        ]

    def __str__(self) -> str:
        return self.name

    def require_editable(self, scope: Scope) -> None:
        """Raise ForbiddenError to who may not change the file."""
        if not File.objects.editable(scope).filter(pk=self.pk).exists():
            raise ForbiddenError("You may read “{name}”, not change it.", name=self.name)

    @property
    def chunk_rule(self) -> ChunkRule:
        """Return how this file is cut: as it was uploaded to be, else as its store says."""
        rule = self.store.chunk_rule
        size, overlap = self.max_tokens_per_chunk, self.max_overlap_tokens
        return ChunkRule(
            rule.max_tokens if size is None else size,
            rule.overlap_tokens if overlap is None else overlap,
            self.splitter or rule.splitter,
        )

    @property
    def origin_url(self) -> str:
        """Return the web address that opens the document where it comes from; empty for none."""
        url = str(self.metadata.get("url") or "") if isinstance(self.metadata, dict) else ""
        return url if url.startswith(("https://", "http://")) else ""

    @property
    def resource_name(self) -> str:
        """Return what the document is called by programs, whichever backend keeps it."""
        return self.remote_name or f"{self.store.resource_name}/documents/{self.pk}"

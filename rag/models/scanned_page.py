"""Scanned pages: the words that OCR has recognized on a file's pages, with their boxes."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from rag.models.file import File


class ScannedPage(models.Model):
    """One page of the bytes that ``sha256`` names; written page by page, so that OCR can go on.

    ``words`` is ``rag.core.ocr.scans.PageWords`` as JSON.
    """

    file = models.ForeignKey(
        File, models.CASCADE, related_name="scanned_pages", verbose_name=_("file")
    )
    sha256 = models.CharField(max_length=64)
    number = models.PositiveIntegerField(_("page"))
    engine = models.CharField(_("engine"), max_length=80)
    confidence = models.FloatField(_("confidence"))
    has_failed = models.BooleanField(default=False)
    words = models.TextField(_("words"))

    class Meta:
        verbose_name = _("scanned page")
        verbose_name_plural = _("scanned pages")
        constraints = [
            models.UniqueConstraint(
                fields=["file", "sha256", "number"], name="rag_scanned_page_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.file_id}:{self.number}"

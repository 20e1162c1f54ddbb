"""Chunk revisions in the admin: earlier texts of edited chunks; read-only."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.ui.cells import pages_text
from rag.admin.ui.scoped import ReadOnlyAdmin
from rag.core.access import Scope
from rag.services.files import visible_chunks


@admin.register(models.ChunkRevision)
class ChunkRevisionAdmin(ReadOnlyAdmin):
    """Earlier texts of readable chunks."""

    list_display = ("preview", "chunk", "revision", "page", "replaced_by", "replaced_at")
    list_select_related = ("chunk", "replaced_by")
    sortable_by = ()
    fields = (
        "chunk",
        "revision",
        "whole_text",
        "page",
        "file_revision",
        "replaced_by",
        "replaced_at",
    )
    readonly_fields = ("whole_text", "page")

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        """Return the revisions of chunks that ``scope`` may read."""
        rows = visible_chunks(scope=scope, rows=queryset, prefix="chunk__")
        return rows.defer("chunk__text", "chunk__context")

    @admin.display(description=_("text"))
    def preview(self, revision: models.ChunkRevision) -> str:
        """Return the beginning of the text."""
        return Truncator(" ".join(revision.text.split())).chars(120)

    @admin.display(description=_("text"))
    def whole_text(self, revision: models.ChunkRevision) -> SafeString:
        """Return the text as it stood."""
        return format_html('<pre class="desk-text">{}</pre>', revision.text)

    @admin.display(description=_("page"))
    def page(self, revision: models.ChunkRevision) -> str:
        """Return the page or pages."""
        return pages_text(revision.page_first, revision.page_last)

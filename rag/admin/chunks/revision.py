"""Chunk revisions in the admin: earlier texts of edited chunks; read-only."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.ui.cells import column, pages_text, text_block
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
        rows = visible_chunks(scope=scope, rows=queryset, prefix="chunk__")
        return rows.defer("chunk__text", "chunk__context")

    preview = column(
        _("text"), lambda revision: Truncator(" ".join(revision.text.split())).chars(120)
    )
    whole_text = column(_("text"), lambda revision: text_block(revision.text))
    page = column(_("page"), lambda revision: pages_text(revision.page_first, revision.page_last))

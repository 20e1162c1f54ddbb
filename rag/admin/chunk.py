"""Chunks: what will be found, word for word; switched off and on, not rewritten here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from rag import models
from rag.admin.cells import label, page_link, pages_text
from rag.admin.filters import FileFilter, LiveFilter, StoreFilter
from rag.admin.scoped import ScopedAdmin, scope_for
from rag.services.files import set_chunks_enabled
from rag.services.find_chunks import find_chunks

PREVIEW = 240
HEAVY_OF_FILE = ("canonical_text", "pages", "blocks", "metadata", "warnings", "progress", "error")


@admin.register(models.Chunk)
class ChunkAdmin(ScopedAdmin):
    """Chunks of readable files; the only thing to change is whether they are found."""

    list_display = (
        "preview",
        "file",
        "store",
        "page",
        "ordinal",
        "headings",
        "token_count",
        "state",
    )
    list_select_related = ("file", "store")
    list_filter = (StoreFilter, FileFilter, "enabled", LiveFilter)
    search_fields = ("text",)
    search_help_text = _("All words must be in the chunk.")
    sortable_by = ()
    actions = ("enable", "disable")
    fields = (
        "enabled", "whole_text", "carried", "store", "file", "page", "headings", "ordinal", "span",
        "token_count", "content_type", "state", "revision", "file_revision", "edited_by",
    )  # fmt: skip
    readonly_fields = fields[1:]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return readable chunks without their texts: lists fetch only the beginnings."""
        heavy = [f"file__{name}" for name in HEAVY_OF_FILE]
        return super().get_queryset(request).defer("text", "context", *heavy)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return the chunks with all the words, by the lexical index."""
        if not search_term.strip():
            return queryset, False
        found = find_chunks(chunks=queryset, scope=scope_for(request), words=search_term)
        return found, False

    def complete_rows(self, rows: list[Any]) -> None:
        """Fetch the beginnings of the texts that are shown."""
        chunks = models.Chunk.objects.filter(pk__in=[row.pk for row in rows])
        starts = dict(chunks.order_by().values_list("pk", Left("text", PREVIEW + 1)))
        for row in rows:
            row.start_of_text = starts.get(row.pk, "")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: chunks come from files."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: a chunk is switched off, or goes with its file."""
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Switch by the service; nothing else of a chunk is saved here."""
        set_chunks_enabled(scope=scope_for(request), chunk_ids=[obj.pk], enabled=obj.enabled)

    @admin.action(description=_("Switch on: may be found"), permissions=["change"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Let the chosen chunks be found."""
        self._switch(request, queryset.values_list("pk", flat=True), True)

    @admin.action(description=_("Switch off: never found"), permissions=["change"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Keep the chosen chunks out of every search."""
        self._switch(request, queryset.values_list("pk", flat=True), False)

    def _switch(self, request: HttpRequest, ids: Iterable[int], enabled: bool) -> None:
        n = set_chunks_enabled(scope=scope_for(request), chunk_ids=list(ids), enabled=enabled)
        if enabled:
            text = ngettext("%(n)d chunk was switched on.", "%(n)d chunks were switched on.", n)
        else:
            text = ngettext("%(n)d chunk was switched off.", "%(n)d chunks were switched off.", n)
        self.message_user(request, text % {"n": n}, messages.SUCCESS if n else messages.WARNING)

    @admin.display(description=_("text"))
    def preview(self, chunk: Any) -> str:
        """Return the beginning of the text."""
        start = getattr(chunk, "start_of_text", None)
        text = chunk.text if start is None else start
        return Truncator(" ".join(text.split())).chars(PREVIEW // 2)

    @admin.display(description=_("text"))
    def whole_text(self, chunk: models.Chunk) -> SafeString:
        """Return the text as it stands, every line break kept."""
        return format_html('<pre class="desk-text">{}</pre>', chunk.text)

    @admin.display(description=_("carried header"))
    def carried(self, chunk: models.Chunk) -> SafeString:
        """Return the text that is searched with the chunk, such as a table's header row."""
        return format_html('<pre class="desk-text">{}</pre>', chunk.context or "–")

    @admin.display(description=_("page"))
    def page(self, chunk: models.Chunk) -> str:
        """Return the page or pages."""
        return pages_text(chunk.page_first, chunk.page_last)

    @admin.display(description=_("heading path"))
    def headings(self, chunk: models.Chunk) -> str:
        """Return the headings above the chunk."""
        return " › ".join(map(str, chunk.heading_path)) or "–"

    @admin.display(description=_("state"))
    def state(self, chunk: models.Chunk) -> SafeString:
        """Return whether searches find the chunk."""
        if not chunk.is_live:
            return label(_("replaced"), "idle")
        return label(_("on"), "good") if chunk.enabled else label(_("off"), "bad")

    @admin.display(description=_("span"))
    def span(self, chunk: models.Chunk) -> SafeString:
        """Return where the chunk lies in its file's text, the way to it."""
        start, end = chunk.char_start, chunk.char_end
        return page_link("rag_file_text", chunk.file_id, f"{start}–{end}", at=f"{start}-{end}")

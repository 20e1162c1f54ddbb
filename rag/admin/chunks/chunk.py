"""Chunk admin: lexical search, filters, enabling, deletion, and links to the editing pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import SimpleListFilter
from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from rag import models
from rag.admin.chunks.pages import AddChunkPage, ChunkRevisionsPage, EditChunkPage
from rag.admin.files.chunk_preview import ChunkPreviewPage
from rag.admin.ui.cells import column, label, page_link, pages_text, text_block
from rag.admin.ui.filters import ConditionFilter, FileListFilter, StoreListFilter
from rag.admin.ui.paginator import MAX_LISTED_ROWS
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import OverviewAdmin, row_ids, scope_for
from rag.core.access import Scope
from rag.models.file import LARGE_FILE_FIELDS
from rag.services.chunks import delete_chunks, find_first_chunks
from rag.services.files import set_chunks_enabled, visible_chunks, visible_files


class RevisionFilter(SimpleListFilter):
    """Chunks of the files' current revisions, unless one asks for those before."""

    title = _("revision")
    parameter_name = "live"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[Any, Any]]:
        return [("no", _("replaced, kept for citations"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(is_live=self.value() != "no")


_Origin = models.Chunk.Origin
# The condition of a partial index.
_TOUCHED = ~Q(origin=_Origin.PARSED) | Q(enabled=False)


class EditedFilter(ConditionFilter):
    """Chunks that people edited, added or disabled: few, and found by a partial index."""

    title = _("changed by people")
    parameter_name = "touched"
    conditions = {
        "edited": (_Origin.EDITED.label, _TOUCHED & Q(origin=_Origin.EDITED)),
        "added": (_Origin.ADDED.label, _TOUCHED & Q(origin=_Origin.ADDED)),
        "off": (_("switched off"), _TOUCHED & Q(enabled=False)),
    }


PREVIEW = 240


@admin.register(models.Chunk)
class ChunkAdmin(OverviewAdmin):
    """Chunks of readable files; the ways to change them are services and pages of their own."""

    list_display = (
        "preview",
        "file",
        "store",
        "page",
        "place",
        "headings",
        "token_count",
        "state",
    )
    list_select_related = ("file", "store")
    list_filter = (StoreListFilter, FileListFilter, "enabled", EditedFilter, RevisionFilter)
    search_fields = ("text",)
    search_help_text = _("All words must be in the chunk.")
    # Store by store: an index is in this order, and starts at any of them.
    ordering = ("store_id", "file_id", "char_end", "ordinal")
    sortable_by = ()
    actions = ("enable", "disable")
    fields = (
        "enabled",
        "number",
        "whole_text",
        "carried",
        "store",
        "file",
        "page",
        "headings",
        "place",
        "span",
        "token_count",
        "content_type",
        "state",
        "revision",
        "file_revision",
        "edited_by",
    )
    readonly_fields = fields[1:]
    list_before_template = "admin/rag/chunk_links.html"
    change_form_outer_before_template = "admin/rag/chunk_overview.html"

    class Media:
        css = {"all": ("rag/admin/chunks.css",)}

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields; editors have the text in an editor above them."""
        in_field = obj is not None and obj.is_live and self.has_change_permission(request, obj)
        return [name for name in self.fields if not (in_field and name == "whole_text")]

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        return visible_chunks(scope=scope, rows=queryset)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return readable chunks without their texts: lists fetch only the beginnings."""
        rows = super().get_queryset(request).select_related("file", "store")
        return rows.defer("text", "context", *LARGE_FILE_FIELDS)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return the chunks with all the words, by the lexical index."""
        if request.path.endswith("/autocomplete/"):
            # A choice of chunks is named by its words; there are few of them on a page.
            queryset = queryset.defer(None).defer("context", *LARGE_FILE_FIELDS)
        if not search_term.strip():
            return queryset, False
        readable = models.Store.objects.readable(scope_for(request))
        if chosen := parse_int(request.GET.get("store")):
            readable = readable.filter(pk=chosen)
        # What a newer revision replaced is in no index, and is read.
        is_live = request.GET.get(RevisionFilter.parameter_name) != "no"
        stores = list(readable.order_by("pk").values_list("pk", flat=True)) if is_live else []
        # One row more than is shown means that there are more.
        few = find_first_chunks(
            chunks=queryset, stores=stores, words=search_term, limit=MAX_LISTED_ROWS + 1
        )
        return few, False

    def complete_rows(self, rows: list[Any]) -> None:
        """Fetch the beginnings of the texts that are shown."""
        chunks = models.Chunk.objects.filter(pk__in=[row.pk for row in rows])
        starts = dict(chunks.order_by().values_list("pk", Left("text", PREVIEW + 1)))
        for row in rows:
            row.start_of_text = starts.get(row.pk, "")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: a chunk is added to a file, on a page of its own."""
        return False

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete by the service, so that reading the file again does not bring it back."""
        delete_chunks(scope=scope_for(request), chunk_ids=[obj.pk], by=request.user)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        delete_chunks(scope=scope_for(request), chunk_ids=row_ids(queryset), by=request.user)

    def pages(self) -> Sequence[tuple[str, Any, str]]:
        return (
            ("<int:pk>/text/", EditChunkPage, "rag_chunk_text"),
            ("<int:pk>/revisions/", ChunkRevisionsPage, "rag_chunk_revisions"),
            ("file/<int:pk>/add/", AddChunkPage, "rag_chunk_add_to"),
            ("store/<int:pk>/preview/", ChunkPreviewPage, "rag_chunk_preview"),
        )

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list; for one file or store with links to its actions."""
        file, number = models.File.objects.light(), parse_int(request.GET.get("file"))
        readable = visible_files(scope=scope_for(request), rows=file.filter(pk=number))
        chosen = readable.first() if number else None
        links = {
            "file": chosen,
            "store_id": chosen.store_id if chosen else parse_int(request.GET.get("store")),
            "may_add": chosen is not None and self._may_add(request, chosen),
            "has_conflicts": chosen is not None and chosen.conflicts.exists(),
        }
        return super().changelist_view(request, {**(extra_context or {}), "links": links})

    def overview(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Return what the text's editor above the fields needs."""
        return {
            "chunk": obj,
            "may_edit": obj.is_live and self.has_change_permission(request, obj),
            "may_add": obj.is_live and self._may_add(request, obj.file),
            "has_revisions": obj.revision > 1,
            "conflict": models.ChunkConflict.objects.filter(chunk=obj).first(),
        }

    def _may_add(self, request: HttpRequest, file: models.File) -> bool:
        mine = models.File.objects.editable(scope_for(request)).filter(pk=file.pk)
        return request.user.has_perm("rag.add_chunk") and mine.exists()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Switch by the service; nothing else of a chunk is saved here."""
        set_chunks_enabled(scope=scope_for(request), chunk_ids=[obj.pk], enabled=obj.enabled)

    @admin.action(description=_("Enable: may be found"), permissions=["change"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Let the chosen chunks be found."""
        self._switch(request, queryset, True)

    @admin.action(description=_("Disable: never found"), permissions=["change"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Keep the chosen chunks out of every search."""
        self._switch(request, queryset, False)

    def _switch(self, request: HttpRequest, rows: QuerySet[Any], enabled: bool) -> None:
        n = set_chunks_enabled(scope=scope_for(request), chunk_ids=row_ids(rows), enabled=enabled)
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

    whole_text = column(_("text"), lambda chunk: text_block(chunk.text))
    carried = column(_("carried header"), lambda chunk: text_block(chunk.context or "–"))
    page = column(_("page"), lambda chunk: pages_text(chunk.page_first, chunk.page_last))
    number = column(_("number"), lambda chunk: int(chunk.pk))
    headings = column(
        _("heading path"), lambda chunk: " › ".join(map(str, chunk.heading_path)) or "–"
    )

    @admin.display(description=_("state"))
    def state(self, chunk: models.Chunk) -> SafeString:
        """Return whether searches find the chunk."""
        if not chunk.is_live:
            return label(_("replaced"), "idle")
        found = label(_("on"), "good") if chunk.enabled else label(_("off"), "bad")
        if chunk.origin == models.Chunk.Origin.PARSED:
            return found
        return format_html("{} {}", found, label(chunk.get_origin_display(), "warn"))

    place = column(_("position"), lambda chunk: chunk.position)

    @admin.display(description=_("span"))
    def span(self, chunk: models.Chunk) -> SafeString:
        """Return the chunk's span in its file's text, with a link."""
        start, end = chunk.char_start, chunk.char_end
        return page_link("rag_file_text", chunk.file_id, f"{start}–{end}", at=f"{start}-{end}")

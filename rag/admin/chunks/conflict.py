"""Conflict resolution: edits that found no place in a new reading are kept, moved or discarded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from rag import models
from rag.admin.ui.admin_page import ObjectPage
from rag.admin.ui.cells import column, label, list_link, page_link
from rag.admin.ui.filters import FileListFilter
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import ReadOnlyAdmin, scope_for
from rag.core.access import Scope
from rag.core.errors import RAGError
from rag.models.file import LARGE_FILE_FIELDS, file_readable_by
from rag.models.store import editable_by
from rag.services.chunks import (
    discard_conflict,
    keep_conflict,
    move_conflict,
    neighbour_chunk,
)
from rag.stages.chunking.diff_texts import diff_texts

_DONE = {
    "keep": gettext_lazy("The text is a chunk of its own now and is found."),
    "put": gettext_lazy("The text took the other chunk's place and is found."),
    "drop": gettext_lazy("The text was dropped."),
}


@admin.register(models.ChunkConflict)
class ChunkConflictAdmin(ReadOnlyAdmin):
    """Conflicts of readable files; each is decided on a page of its own."""

    list_display = ("preview", "kind", "file_name", "created_at", "links")
    list_display_links = None
    list_select_related = ("chunk", "file")
    list_filter = (FileListFilter,)
    sortable_by = ()

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        """Return the conflicts of files that ``scope`` may read, without the files' texts."""
        rows = queryset.filter(file_readable_by(scope, "file__")).select_related("chunk", "file")
        return rows.defer("chunk__context", *LARGE_FILE_FIELDS)

    def editable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        return queryset.filter(editable_by(scope, "file__store__"))

    preview = column(
        gettext_lazy("text"),
        lambda conflict: Truncator(" ".join(conflict.chunk.text[:400].split())).chars(120),
    )
    kind = column(gettext_lazy("what was done"), lambda conflict: origin_label(conflict.chunk))
    file_name = column(
        gettext_lazy("file"),
        lambda conflict: list_link("rag_chunk", conflict.file.name, file=conflict.file_id),
    )
    links = column(
        gettext_lazy("go to"),
        lambda conflict: page_link("rag_conflict_decide", conflict.pk, _("Decide")),
    )

    def pages(self) -> Sequence[tuple[str, Any, str]]:
        return (("<int:pk>/decide/", ConflictPage, "rag_conflict_decide"),)


class ConflictPage(ObjectPage):
    """Shows an edit that found no place beside the current chunk; keep, move or discard it."""

    template_name = "admin/rag/chunk_conflict.html"
    permission_required = ("rag.view_chunkconflict", "rag.view_chunk")
    title = gettext_lazy("An unplaced edit")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the text and the chunk that lies where it may belong."""
        conflict: models.ChunkConflict = self.row
        near = neighbour_chunk(conflict=conflict)
        return super().get_context_data(
            **{
                "conflict": conflict,
                "chunk": conflict.chunk,
                "near": near,
                "kind": origin_label(conflict.chunk),
                "may_edit": self._may_edit(),
                "diff": diff_texts(near.text, conflict.chunk.text) if near else (),
                **kwargs,
            }
        )

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        """Resolve the conflict and return to the file's chunks."""
        if not self._may_edit():
            raise PermissionDenied
        deed, file_id, user = request.POST.get("deed", ""), self.row.file_id, request.user
        values: Any = {"scope": scope_for(request), "conflict_id": self.row.pk, "by": user}
        try:
            if deed == "keep":
                keep_conflict(**values)
            elif deed == "put":
                near, seen = (parse_int(request.POST.get(name, "")) for name in ("near", "seen"))
                move_conflict(chunk_id=near, expected_revision=seen, **values)
            elif deed == "drop":
                discard_conflict(**values)
            else:
                return self.render_to_response(self.get_context_data())
        except RAGError as error:
            return self.render_error(error)
        messages.success(request, _DONE[deed])
        return redirect(f"{reverse('admin:rag_chunk_changelist')}?file={file_id}")

    def _may_edit(self) -> bool:
        user: Any = self.request.user
        return user.has_perm("rag.change_chunk") and self.model_admin.may_edit(
            self.request, self.row
        )


def origin_label(chunk: models.Chunk) -> SafeString:
    """Return a badge: edited, added or disabled."""
    if chunk.origin == models.Chunk.Origin.PARSED:
        return label(_("switched off"), "bad")
    return label(models.Chunk.Origin(chunk.origin).label, "warn")

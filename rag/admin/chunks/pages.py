"""Chunk pages: edit the text, compare and restore revisions, add a chunk."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from rag import models
from rag.admin.ui.admin_page import ObjectPage
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import scope_for
from rag.core.errors import RAGError
from rag.services.chunks import add_chunk, chunk_revisions, edit_chunk, restore_revision
from rag.stages.chunking.diff_texts import diff_texts


class _ChunkPage(ObjectPage):
    permission_required: tuple[str, ...] = ("rag.view_chunk",)

    @property
    def chunk(self) -> models.Chunk:
        chunk: models.Chunk = self.row
        return chunk

    def done(self, text: str) -> HttpResponse:
        """Show a message and redirect to the chunk; the list's filters are kept."""
        messages.success(self.request, text)
        url = reverse("admin:rag_chunk_change", args=[self.chunk.pk])
        filters = self.request.GET.get("_changelist_filters", "")
        return redirect(f"{url}?{urlencode({'_changelist_filters': filters})}" if filters else url)

    def require_change_permission(self) -> None:
        """Raise PermissionDenied to who may not change the chunk."""
        if not self.model_admin.has_change_permission(self.request, self.chunk):
            raise PermissionDenied

    def reload(self) -> None:
        """Fetch the chunk as it is stored now; 404 if it is gone."""
        self.row = get_object_or_404(self.get_rows(self.request), pk=self.row.pk)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the chunk, and whether its text may be changed."""
        may_edit = self.model_admin.has_change_permission(self.request, self.chunk)
        return super().get_context_data(**kwargs, chunk=self.chunk, may_edit=may_edit)


class EditChunkPage(_ChunkPage):
    """The text of a chunk in a field; saving it embeds it at once."""

    template_name = "admin/rag/chunk_text.html"
    title = gettext_lazy("Edit the text")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the chunk as it is, or what was typed."""
        kwargs.setdefault("typed", self.chunk.text)
        return super().get_context_data(**kwargs, seen=self.chunk.revision)

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        """Save the text; a mistake shows the page again with all that was typed."""
        self.require_change_permission()
        typed, seen = request.POST.get("text", ""), parse_int(request.POST.get("seen", ""))
        try:
            chunk = edit_chunk(
                scope=scope_for(request),
                chunk_id=self.chunk.pk,
                text=typed,
                by=request.user,
                expected_revision=seen,
            )
        except RAGError as error:
            self.reload()
            is_stale = self.chunk.revision != seen
            diff = diff_texts(self.chunk.text, typed) if is_stale else ()
            return self.render_error(error, typed=typed, diff=diff)
        if chunk.revision == seen:
            return self.done(_("The text is as it was."))
        return self.done(_("The text was saved and is found by its new words from now on."))


class ChunkRevisionsPage(_ChunkPage):
    """All revisions of a chunk with diffs, each of which can be restored."""

    template_name = "admin/rag/chunk_revisions.html"
    permission_required = ("rag.view_chunk", "rag.view_chunkrevision")
    title = gettext_lazy("Revisions")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the revisions, each with the change that led to it."""
        revisions = chunk_revisions(scope=scope_for(self.request), chunk_id=self.chunk.pk)
        shown = [
            {"row": one, "diff": diff_texts(before.text, one.text) if before else None}
            for one, before in zip(revisions, [*revisions[1:], None], strict=True)
        ]
        return super().get_context_data(**kwargs, shown=shown)

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        """Restore a revision as a new one."""
        self.require_change_permission()
        try:
            restore_revision(
                scope=scope_for(request),
                chunk_id=self.chunk.pk,
                by=request.user,
                revision=parse_int(request.POST.get("revision", "")),
                expected_revision=parse_int(request.POST.get("seen", "")),
            )
        except RAGError as error:
            self.reload()
            return self.render_error(error)
        return self.done(_("The earlier text was brought back as a new revision."))


class AddChunkPage(ObjectPage):
    """A new chunk in a file: behind the chunk ``after``, or at its beginning."""

    template_name = "admin/rag/chunk_add.html"
    permission_required = ("rag.view_chunk", "rag.add_chunk")
    title = gettext_lazy("Add a chunk")

    def get_rows(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the files whose stores one may edit."""
        return models.File.objects.editable(scope_for(request)).light().select_related("store")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the file and the chunk before the new one."""
        after = parse_int(self.request.GET.get("after"))
        live = models.Chunk.objects.live().filter(file=self.row)
        context: dict[str, Any] = {
            "file": self.row,
            "after": live.filter(pk=after).first(),
            "is_first": not after,
            "typed": "",
        }
        return super().get_context_data(**{**context, **kwargs})

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show the form; 404 for a chunk that the file does not have."""
        context = self.get_context_data(**kwargs)
        if not (context["is_first"] or context["after"]):
            raise Http404
        return self.render_to_response(context)

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        typed, after = request.POST.get("text", ""), parse_int(request.GET.get("after", ""))
        try:
            chunk = add_chunk(
                scope=scope_for(request),
                file_id=self.row.pk,
                text=typed,
                by=request.user,
                after=after or None,
            )
        except RAGError as error:
            return self.render_error(error, typed=typed)
        messages.success(request, _("The chunk was added and is found from now on."))
        return redirect(reverse("admin:rag_chunk_change", args=[chunk.pk]))

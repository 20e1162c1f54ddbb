"""File admin: list with live status, metadata form, warnings, restriction to groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Func, IntegerField, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html, format_html_join
from django.utils.http import content_disposition_header
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from rag import models
from rag.admin.files.actions import FileActions
from rag.admin.files.form import FileForm
from rag.admin.files.status import is_busy, status_cell
from rag.admin.files.text_page import FileTextPage
from rag.admin.ui.cells import column, label, list_link, page_link
from rag.admin.ui.filters import FieldFilter, StoreListFilter
from rag.admin.ui.gemini import GeminiDeletion
from rag.admin.ui.group_field import GroupFieldAdmin
from rag.admin.ui.messages import error_sentence, warning_sentence
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import row_ids, scope_for
from rag.admin.ui.splitters import rechunk_sentence
from rag.core.access import Scope
from rag.core.documents import KINDS
from rag.core.errors import NotFoundError, RAGError
from rag.services.files import (
    cancel_files,
    delete_files,
    open_original,
    queue_places,
    set_encoding,
    set_splitter,
    stream_bytes,
    update_file,
    visible_files,
)

MAX_POLLED = 200


class FileKindFilter(FieldFilter):
    """By kind of document: those that we read."""

    title = _("kind")
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(kind, kind) for kind in KINDS]


def _original_link(file: models.File) -> SafeString | str:
    if not file.origin_url:
        return "–"
    return format_html(
        '<a class="desk-link" href="{0}" rel="noopener noreferrer">{0}</a>', file.origin_url
    )


@admin.register(models.File)
class FileAdmin(FileActions, GeminiDeletion, GroupFieldAdmin):
    """Files that one may read; they come by upload, so none is added here."""

    form = FileForm
    change_form_before_template = "admin/rag/seen_field.html"
    remote_field = "remote_name"
    list_display = (
        "name",
        "store",
        "status_now",
        "kind",
        "bytes",
        "n_pages",
        "chunks",
        "notes",
        "updated_at",
    )
    list_select_related = ("store",)
    list_filter = (StoreListFilter, "status", FileKindFilter)
    search_fields = ("name",)
    sortable_by = ("name", "kind", "updated_at")
    actions = ("retry", "cancel", "vectors", "enable", "disable", "move", "export")
    readonly_fields = (
        "store",
        "original_link",
        "status_now",
        "reading",
        "chunks",
        "kind",
        "bytes",
        "encoding",
        "parser",
        "all_warnings",
        "sha256",
        "revision",
        "created_at",
        "updated_at",
    )
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "name",
                    "store",
                    "original_link",
                    "status_now",
                    "reading",
                    "chunks",
                    "all_warnings",
                )
            },
        ),
        (_("What searches can filter by"), {"fields": ("content_type", "metadata")}),
        (_("Who may read"), {"fields": ("restricted_to",)}),
        (
            _("How it was read"),
            {
                "fields": (
                    "encoding_override",
                    "splitter",
                    "kind",
                    "bytes",
                    "encoding",
                    "parser",
                    "sha256",
                    "revision",
                    "created_at",
                    "updated_at",
                )
            },
        ),
    )

    class Media:
        js = ("rag/admin/progress.js",)

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        return visible_files(scope=scope, rows=queryset)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return readable files without their texts."""
        return super().get_queryset(request).light()  # type: ignore[attr-defined,no-any-return]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: the upload page of a store adds files."""
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save by the service: a worker may be writing other fields of the row."""
        values = {name: form.cleaned_data[name] for name in ("name", "content_type", "metadata")}
        update_file(
            scope=scope_for(request),
            file=obj,
            restricted_to=form.cleaned_data["restricted_to"],
            **values,
        )
        codec = form.cleaned_data["encoding_override"]
        if set_encoding(scope=scope_for(request), file=obj, encoding=codec):
            self.message_user(request, _("The file is read and indexed again."), messages.SUCCESS)
        template = form.cleaned_data.get("splitter", obj.splitter)
        if set_splitter(scope=scope_for(request), file=obj, splitter=template):
            self.message_user(request, rechunk_sentence(1), messages.SUCCESS)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Do nothing: the service has set the groups."""

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete by the service, so that bytes and index go too."""
        delete_files(scope=scope_for(request), file_ids=[obj.pk])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        delete_files(scope=scope_for(request), file_ids=row_ids(queryset))

    def cascade_counts(self, rows: list[Any]) -> dict[Any, Any]:
        return {models.Chunk._meta.verbose_name_plural: sum(row.n_chunks for row in rows)}

    def complete_rows(self, rows: list[Any]) -> None:
        """Count the pages of the rows shown, and find the places of those that wait."""
        n_pages = Func("pages", function="jsonb_array_length", output_field=IntegerField())
        files = models.File.objects.filter(pk__in=[row.pk for row in rows])
        counts = dict(files.values_list("pk", n_pages))
        for row in rows:
            row.page_count = counts.get(row.pk, 0)
        waiting = [row for row in rows if row.progress.get("stage") == "waiting"]
        places = queue_places() if waiting else {}
        for row in waiting:
            row.queue_place = places.get(row.pk)

    @admin.action(description=_("Remove from the queue"), permissions=["change"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Cancel the jobs that have not begun."""
        n, n_running = cancel_files(scope=scope_for(request), file_ids=row_ids(queryset))
        text = ngettext("%(n)d file was taken out.", "%(n)d files were taken out.", n) % {"n": n}
        self.message_user(request, text, messages.SUCCESS if n else messages.WARNING)
        if n_running:
            text = ngettext(
                "%(n)d is being read already and will be finished.",
                "%(n)d are being read already and will be finished.",
                n_running,
            )
            self.message_user(request, text % {"n": n_running}, messages.WARNING)

    original_link = column(_("original at its origin"), lambda file: _original_link(file))
    status_now = column(_("status"), lambda file: status_cell(file), ordering="status")
    bytes = column(_("size"), lambda file: filesizeformat(file.size), ordering="size")
    n_pages = column(_("pages"), lambda file: getattr(file, "page_count", 0) or "–")
    chunks = column(_("chunks"), lambda file: list_link("rag_chunk", file.n_chunks, file=file.pk))

    @admin.display(description=_("warnings"))
    def notes(self, file: models.File) -> SafeString | str:
        """Return the number of warnings, with their text as a tooltip."""
        if not file.warnings:
            return ""
        text = "\n".join(warning_sentence(warning) for warning in file.warnings)
        return format_html(
            '<span title="{}">{}</span>', text, label(str(len(file.warnings)), "warn")
        )

    @admin.display(description=_("warnings"))
    def all_warnings(self, file: models.File) -> SafeString | str:
        """Return every warning on a line of its own."""
        lines = ((warning_sentence(warning),) for warning in file.warnings)
        return format_html_join("", '<p class="desk-note">{}</p>', lines) or "–"

    @admin.display(description=_("read"))
    def reading(self, file: models.File) -> SafeString:
        """Return links to the text and the original."""
        text = page_link("rag_file_text", file.pk, _("Text with pages"))
        original = page_link("rag_file_original", file.pk, _("Download the original"))
        return format_html("{} · {}", text, original)

    def pages(self) -> Sequence[tuple[str, Any, str]]:
        return (
            ("progress/", self.progress_view, "rag_file_progress"),
            ("<int:pk>/text/", FileTextPage, "rag_file_text"),
            ("<int:pk>/original/", self.original_view, "rag_file_original"),
        )

    def original_view(self, request: HttpRequest, pk: int) -> StreamingHttpResponse:
        """Stream the bytes of a readable file, as a download only."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        file = get_object_or_404(self.get_queryset(request), pk=pk)
        try:
            content, size = open_original(file=file)
        except NotFoundError as error:
            raise Http404 from error
        kind = "application/octet-stream"
        response = StreamingHttpResponse(stream_bytes(content, size), content_type=kind)
        response["Content-Length"] = str(size)
        name = content_disposition_header(True, file.name)
        response["Content-Disposition"] = name or "attachment"
        response["Content-Security-Policy"] = "sandbox"
        return response

    def progress_view(self, request: HttpRequest) -> HttpResponse:
        """Return the present state of the files named in ``ids``, readable ones only."""
        if not self.has_view_permission(request):
            return JsonResponse({"files": []}, status=403)
        ids = [parse_int(part) for part in request.GET.get("ids", "").split(",")]
        rows = list(self.get_queryset(request).filter(pk__in=ids[:MAX_POLLED]))
        self.complete_rows(rows)
        files = [
            {
                "id": row.pk,
                "is_busy": is_busy(row),
                "status": status_cell(row),
                "kind": row.kind or "–",
                "n_pages": str(self.n_pages(row)),
                "chunks": str(row.n_chunks),
            }
            for row in rows
        ]
        words = {"left": _("about {n} s left")} if files else {}
        return JsonResponse({"files": files, **words})

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Show or save the form; a service's error becomes a message."""
        try:
            return super().changeform_view(request, *args, **kwargs)
        except RAGError as error:
            self.message_user(request, error_sentence(error), messages.ERROR)
            return self.response_post_save_change(request, None)

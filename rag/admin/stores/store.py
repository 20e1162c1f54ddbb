"""Store admin: list, form, access groups, deletion, links to files, chunks and search."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.files.status import STATUS_COLOURS
from rag.admin.stores.actions import StoreActions
from rag.admin.stores.form import StoreForm
from rag.admin.stores.hit_test import HitTestPage
from rag.admin.stores.overview import store_overview
from rag.admin.stores.upload import UploadPage, capped_upload_view
from rag.admin.ui.cells import column, join_cells, label, list_link, page_link
from rag.admin.ui.gemini import GeminiStoreActions, gemini_state
from rag.admin.ui.group_field import OwnedAdmin
from rag.admin.ui.scoped import OverviewAdmin, scope_for
from rag.admin.ui.splitters import rechunk_sentence
from rag.core.documents import ChunkRule
from rag.services.ingest import is_ocr_installed
from rag.services.reindex import rechunk_store
from rag.services.stores import create_store, delete_store
from rag.stages.detect.file_errors import NEEDS_OCR

SERVICE_FIELDS = (
    "name",
    "slug",
    "display_name",
    "backend",
    "owner",
    "is_public",
    "max_tokens_per_chunk",
    "max_overlap_tokens",
    "splitter",
    "ocr",
    "reads_hidden_cells",
    "retrieval",
)

_HOW_FILES_ARE_READ = {"max_tokens_per_chunk", "max_overlap_tokens", "reads_hidden_cells"}


@admin.register(models.Store)
class StoreAdmin(StoreActions, GeminiStoreActions, OwnedAdmin, OverviewAdmin):
    """The stores that one may read; what one may edit can be changed."""

    form = StoreForm
    service_fields = SERVICE_FIELDS
    list_display = (
        "name",
        "kept_at",
        "visibility",
        "files_by_status",
        "chunks",
        "space",
        "updated_at",
        "links",
    )
    list_select_related = ("space",)
    search_fields = ("name", "slug", "display_name")
    sortable_by = ("name", "updated_at")
    autocomplete_fields = ("owner",)
    actions = ("index_again", "sync")
    readonly_fields = (
        "space",
        "resource_name",
        "backend",
        "at_gemini",
        "created_at",
        "updated_at",
    )
    change_form_before_template = "admin/rag/seen_field.html"
    change_form_outer_before_template = "admin/rag/store_overview.html"

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        at_gemini = ["at_gemini"] if obj and obj.is_remote else ["space"]
        facts = ["backend", *at_gemini, "resource_name", "created_at", "updated_at"]
        model = [] if obj else ["embedding_model"]
        return [
            (None, {"fields": ["name", "slug", "display_name", *([] if obj else ["backend"])]}),
            (
                _("How files are read and cut into chunks"),
                {
                    "fields": [
                        "ocr",
                        "splitter",
                        "max_tokens_per_chunk",
                        "max_overlap_tokens",
                        "reads_hidden_cells",
                        *model,
                    ],
                    "description": _(
                        "A chunk is the piece of text that is found and cited. A token is about "
                        "three quarters of an English word or one to two Chinese characters."
                    ),
                },
            ),
            (_("Search"), {"fields": ["retrieval"]}),
            (
                _("Who may read and edit"),
                {"fields": ["owner", "is_public", "reader_groups", "editor_groups"]},
            ),
            *([(_("Facts"), {"fields": facts})] if obj else []),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields that are fixed; the backend is chosen once."""
        fixed = super().get_readonly_fields(request, obj)
        return [name for name in fixed if obj or name != "backend"]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Create the store by the service, or save the changed fields."""
        if change:
            obj.save(update_fields=[*SERVICE_FIELDS, "updated_at"])
            if "ocr" in form.changed_data and obj.ocr:
                self.message_user(
                    request,
                    _("Scans that are here already are read when the store is indexed again."),
                    messages.WARNING,
                )
            if "splitter" in form.changed_data:
                n_files = rechunk_store(scope=scope_for(request), store=obj)
                self.message_user(request, rechunk_sentence(n_files), messages.SUCCESS)
            if _HOW_FILES_ARE_READ & set(form.changed_data):
                self.message_user(
                    request,
                    _("Files keep their chunks until their store is indexed again."),
                    messages.WARNING,
                )
        else:
            obj.owner = obj.owner or request.user
            values = {name: getattr(obj, name) for name in SERVICE_FIELDS}
            model = form.cleaned_data.get("embedding_model", "")
            obj.__dict__.update(create_store(embedding_model=model, **values).__dict__)
        self._warn_of_overlap(request, obj.chunk_rule)
        if "ocr" in form.changed_data and obj.ocr and not is_ocr_installed():
            text = _("Text recognition is not installed here: pip install %(package)s.")
            self.message_user(request, text % NEEDS_OCR.params, messages.WARNING)

    def _warn_of_overlap(self, request: HttpRequest, rule: ChunkRule) -> None:
        if rule.notice:
            text = _(
                "An overlap of %(overlap)d would swallow chunks of %(size)d: %(used)d is used."
            )
            values = {
                "overlap": rule.overlap_tokens,
                "size": rule.max_tokens,
                "used": rule.effective_overlap,
            }
            self.message_user(request, text % values, messages.WARNING)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete by the service, with the files' bytes and the store at Gemini."""
        delete_store(store=obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        super().delete_queryset(request, self.editable(queryset, scope_for(request)))

    def cascade_counts(self, rows: list[Any]) -> dict[Any, Any]:
        n_files = models.File.objects.filter(store__in=rows).count()
        return {
            models.File._meta.verbose_name_plural: n_files,
            models.Chunk._meta.verbose_name_plural: sum(row.n_chunks for row in rows),
        }

    def complete_rows(self, rows: list[Any]) -> None:
        """Count each store's files by status: one query for the page."""
        files = models.File.objects.filter(store__in=rows).order_by()
        counts: dict[int, dict[str, int]] = defaultdict(dict)
        for store, status, n in files.values_list("store", "status").annotate(n=Count("*")):
            counts[store][status] = n
        for row in rows:
            row.file_counts = counts[row.pk]

    @admin.display(description=_("files"))
    def files_by_status(self, store: Any) -> SafeString:
        """Return the number of files by status, with links."""
        counts = getattr(store, "file_counts", {})
        cells = []
        for status in models.File.Status:
            if n := counts.get(status):
                text = label(f"{n} {status.label}", STATUS_COLOURS[status])
                cells.append(list_link("rag_file", text, store=store.pk, status__exact=status))
        return join_cells(cells) or SafeString("–")

    chunks = column(
        _("chunks"), lambda store: list_link("rag_chunk", store.n_chunks, store=store.pk)
    )
    links = column(_("go to"), lambda store: join_cells(store_links(store)))

    def pages(self) -> Sequence[tuple[str, Any, str]]:
        upload = capped_upload_view(UploadPage.as_view(model_admin=self))
        return (
            ("<int:pk>/search/", HitTestPage, "rag_store_search"),
            ("<int:pk>/upload/", upload, "rag_store_upload"),
        )

    def overview(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Return the store's size, health, links and latest queries."""
        self.complete_rows([obj])
        return {
            "store": obj,
            "files": self.files_by_status(obj),
            "at_gemini": gemini_state(obj),
            "may_edit": self.has_change_permission(request, obj),
            **store_overview(request, obj),
        }


def store_links(store: models.Store) -> list[SafeString]:
    """Return links to a store's files, chunks, upload and search."""
    return [
        list_link("rag_file", _("Files"), store=store.pk),
        list_link("rag_chunk", _("Chunks"), store=store.pk),
        page_link("rag_store_upload", store.pk, _("Upload")),
        page_link("rag_store_search", store.pk, _("Search")),
    ]

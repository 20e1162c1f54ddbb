"""Store admin: list, form, access groups, deletion, links to files, chunks and search."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.files.status import STATUS_COLOURS
from rag.admin.stores.actions import StoreActions
from rag.admin.stores.form import StoreForm
from rag.admin.stores.hit_test import HitTestPage
from rag.admin.stores.overview import store_overview
from rag.admin.stores.upload import UploadPage, capped_upload_view
from rag.admin.ui.cells import label, list_link, page_link
from rag.admin.ui.gemini import GeminiStoreActions, gemini_state
from rag.admin.ui.group_field import GroupSelect, limit_groups
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.scoped import ScopedAdmin, scope_for
from rag.core.documents import ChunkRule
from rag.core.errors import RAGError
from rag.services.stores import create_store, delete_store

SERVICE_FIELDS = (
    "name",
    "slug",
    "display_name",
    "backend",
    "owner",
    "is_public",
    "max_tokens_per_chunk",
    "max_overlap_tokens",
    "retrieval",
)


@admin.register(models.Store)
class StoreAdmin(StoreActions, GeminiStoreActions, ScopedAdmin):
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
        """Return the fieldsets: identity, chunking, search, access, facts."""
        at_gemini = ["at_gemini"] if obj and obj.is_remote else ["space"]
        facts = ["backend", *at_gemini, "resource_name", "created_at", "updated_at"]
        model = [] if obj else ["embedding_model"]
        return [
            (None, {"fields": ["name", "slug", "display_name", *([] if obj else ["backend"])]}),
            (
                _("How files are cut into chunks"),
                {
                    "fields": ["max_tokens_per_chunk", "max_overlap_tokens", *model],
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
        """Return the fields that are fixed; only superusers change the owner."""
        own = [] if scope_for(request).is_operator else ["owner"]
        # The backend is chosen once.
        fixed = [name for name in self.readonly_fields if obj or name != "backend"]
        return [*fixed, *own]

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Return a field that offers only the groups that this user may know."""
        kwargs["widget"] = GroupSelect()
        field = super().formfield_for_manytomany(db_field, request, **kwargs)
        return limit_groups(field, request, db_field)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Return the defaults; whoever makes a store owns it."""
        return {"owner": request.user.pk, **super().get_changeform_initial_data(request)}

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Create the store by the service, or save the changed fields."""
        if change:
            obj.save(update_fields=[*SERVICE_FIELDS, "updated_at"])
            if {"max_tokens_per_chunk", "max_overlap_tokens"} & set(form.changed_data):
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
        """Delete the editable ones by the service."""
        for store in queryset.editable(scope_for(request)):  # type: ignore[attr-defined]
            try:
                delete_store(store=store)
            except RAGError as error:
                self.message_user(request, error_sentence(error), messages.ERROR)

    def cascade_counts(self, rows: list[Any]) -> dict[Any, Any]:
        """Return the files and chunks that go with the stores."""
        return {
            models.File._meta.verbose_name_plural: models.File.objects.filter(
                store__in=rows
            ).count(),
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

    @admin.display(description=_("access"))
    def visibility(self, store: models.Store) -> SafeString:
        """Return whether everybody may read."""
        return label(_("public"), "warn") if store.is_public else label(_("restricted"), "idle")

    @admin.display(description=_("files"))
    def files_by_status(self, store: Any) -> SafeString:
        """Return the number of files by status, with links."""
        counts = getattr(store, "file_counts", {})
        states = [state for state in models.File.Status if counts.get(state)]
        cells = (
            (
                list_link(
                    "file",
                    label(f"{counts[s]} {s.label}", STATUS_COLOURS[s]),
                    store=store.pk,
                    status__exact=s,
                ),
            )
            for s in states
        )
        return format_html_join(" ", "{}", cells) or SafeString("–")

    @admin.display(description=_("chunks"))
    def chunks(self, store: models.Store) -> SafeString:
        """Return the number of chunks, with a link."""
        return list_link("chunk", store.n_chunks, store=store.pk)

    @admin.display(description=_("go to"))
    def links(self, store: models.Store) -> SafeString:
        """Return links to the store's pages."""
        return format_html_join(" ", "{}", ((link,) for link in store_links(store)))

    def get_urls(self) -> list[URLPattern]:
        """Return the admin's URLs with the store's pages first."""
        wrap = self.admin_site.admin_view
        search = HitTestPage.as_view(model_admin=self)
        upload = capped_upload_view(UploadPage.as_view(model_admin=self))
        return [
            path("<int:pk>/search/", wrap(search), name="rag_store_search"),
            path("<int:pk>/upload/", wrap(upload), name="rag_store_upload"),
            *super().get_urls(),
        ]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show the store's overview above its form."""
        store = self.get_object(request, object_id)
        if store is not None:
            self.complete_rows([store])
            overview = {
                "store": store,
                "files": self.files_by_status(store),
                "at_gemini": gemini_state(store),
                "may_edit": self.has_change_permission(request, store),
                **store_overview(request, store),
            }
            extra_context = {**(extra_context or {}), "overview": overview}
        return super().change_view(request, object_id, form_url, extra_context)


def store_links(store: models.Store) -> list[SafeString]:
    """Return links to a store's files, chunks, upload and search."""
    return [
        list_link("file", _("Files"), store=store.pk),
        list_link("chunk", _("Chunks"), store=store.pk),
        page_link("rag_store_upload", store.pk, _("Upload")),
        page_link("rag_store_search", store.pk, _("Search")),
    ]

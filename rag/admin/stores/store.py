"""Stores: made, described and opened to groups; the way to their files, chunks and search."""

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
from rag.admin.accounts.account import GroupSelect, limit_groups
from rag.admin.files.status import COLOURS
from rag.admin.stores.bulk import StoreBulk
from rag.admin.stores.form import StoreForm
from rag.admin.stores.hit_test import StoreSearch
from rag.admin.stores.overview import store_desk
from rag.admin.stores.upload import StoreUpload, upload_view
from rag.admin.ui.cells import label, list_link, page_link
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.remote import RemoteStores, remote_state
from rag.admin.ui.scoped import ScopedAdmin, scope_for
from rag.core.documents import ChunkRule
from rag.core.errors import RAGError
from rag.services.stores.lifecycle import create_store, delete_store

MADE_BY_SERVICE = (
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
class StoreAdmin(StoreBulk, RemoteStores, ScopedAdmin):
    """The stores that one may read; what one may edit can be changed."""

    form = StoreForm
    made_by_service = MADE_BY_SERVICE
    list_display = (
        "name",
        "kept_at",
        "visibility",
        "files_by_status",
        "chunks",
        "space",
        "updated_at",
        "ways",
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
    change_form_before_template = "admin/rag/seen.html"
    change_form_outer_before_template = "admin/rag/store_desk.html"

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields in the order in which one thinks of them."""
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
        """Return what this user may not set: only superusers give stores away."""
        own = [] if scope_for(request).is_operator else ["owner"]
        # Where a store is kept is chosen once.
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
        """Make a store by the service, or save the changed one."""
        if change:
            obj.save(update_fields=[*MADE_BY_SERVICE, "updated_at"])
            if {"max_tokens_per_chunk", "max_overlap_tokens"} & set(form.changed_data):
                self.message_user(
                    request,
                    _("Files keep their chunks until their store is indexed again."),
                    messages.WARNING,
                )
        else:
            obj.owner = obj.owner or request.user
            values = {name: getattr(obj, name) for name in MADE_BY_SERVICE}
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
        """Delete by the service, so that the bytes go too, and what is at Gemini."""
        delete_store(store=obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Delete the editable ones by the service."""
        for store in queryset.editable(scope_for(request)):  # type: ignore[attr-defined]
            try:
                delete_store(store=store)
            except RAGError as error:
                self.message_user(request, error_sentence(error), messages.ERROR)

    def counts_below(self, rows: list[Any]) -> dict[Any, Any]:
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
        """Return a count for each status, each the way to those files."""
        counts = getattr(store, "file_counts", {})
        states = [state for state in models.File.Status if counts.get(state)]
        cells = (
            (
                list_link(
                    "file",
                    label(f"{counts[s]} {s.label}", COLOURS[s]),
                    store=store.pk,
                    status__exact=s,
                ),
            )
            for s in states
        )
        return format_html_join(" ", "{}", cells) or SafeString("–")

    @admin.display(description=_("chunks"))
    def chunks(self, store: models.Store) -> SafeString:
        """Return the number of chunks in the index, the way to them."""
        return list_link("chunk", store.n_chunks, store=store.pk)

    @admin.display(description=_("go to"))
    def ways(self, store: models.Store) -> SafeString:
        """Return the ways to the store's pages."""
        return format_html_join(" ", "{}", ((link,) for link in store_links(store)))

    def get_urls(self) -> list[URLPattern]:
        """Return the admin's addresses with the pages of a store before them."""
        wrap = self.admin_site.admin_view
        search = StoreSearch.as_view(model_admin=self)
        upload = upload_view(StoreUpload.as_view(model_admin=self))
        return [
            path("<int:pk>/search/", wrap(search), name="rag_store_search"),
            path("<int:pk>/upload/", wrap(upload), name="rag_store_upload"),
            *super().get_urls(),
        ]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show the store's page: its counts and ways above its form."""
        store = self.get_object(request, object_id)
        if store is not None:
            self.complete_rows([store])
            desk = {
                "store": store,
                "files": self.files_by_status(store),
                "at_gemini": remote_state(store),
                "may_edit": self.has_change_permission(request, store),
                **store_desk(request, store),
            }
            extra_context = {**(extra_context or {}), "desk": desk}
        return super().change_view(request, object_id, form_url, extra_context)


def store_links(store: models.Store) -> list[SafeString]:
    """Return the ways to a store's files, chunks, upload and search."""
    return [
        list_link("file", _("Files"), store=store.pk),
        list_link("chunk", _("Chunks"), store=store.pk),
        page_link("rag_store_upload", store.pk, _("Upload")),
        page_link("rag_store_search", store.pk, _("Search")),
    ]

"""Gemini File Search stores in the admin: create, compare, delete, and the state last seen there.

Calls to Gemini never run inside a transaction.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from rag import models
from rag.admin.ui.cells import column, join_cells, label
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.scoped import ScopedAdmin, scope_for
from rag.core.errors import RAGError
from rag.services.gemini import sync_store
from rag.services.stores import create_store

_STATES = {
    "active": (gettext_lazy("%(n)d documents found"), "good"),
    "pending": (gettext_lazy("%(n)d being processed"), "busy"),
    "failed": (gettext_lazy("%(n)d failed"), "bad"),
    "lost": (gettext_lazy("%(n)d gone"), "bad"),
    "unknown": (gettext_lazy("%(n)d without a file here"), "warn"),
}


class GeminiDeletion(ScopedAdmin):
    """Deletes documents at Gemini before Django opens its transaction; shows what prevents it.

    ``remote_field`` names the attribute that is true of a row of which something is at Gemini.
    """

    remote_field: str

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        """Ask for confirmation; then delete remote rows outside a transaction."""
        obj = self.get_object(request, unquote(object_id)) if request.method == "POST" else None
        if obj is None or not getattr(obj, self.remote_field):
            return super().delete_view(request, object_id, extra_context)
        if not self.has_delete_permission(request, obj):
            raise PermissionDenied
        shown, pk = str(obj), obj.pk
        try:
            self.log_deletions(request, self.get_queryset(request).filter(pk=pk))
            self.delete_model(request, obj)
        except RAGError as error:
            self.message_user(request, error_sentence(error), messages.ERROR)
            name = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
            return HttpResponseRedirect(reverse(name, args=[quote(pk)]))
        return self.response_delete(request, shown, pk)


class GeminiStoreActions(GeminiDeletion):
    """The parts of the store admin for stores at Gemini: create, compare, state."""

    remote_field = "is_remote"
    service_fields: tuple[str, ...]

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show the form or create the store; one at Gemini is created outside any transaction."""
        if request.method == "POST" and request.POST.get("backend") == "gemini":
            made = self._add_remote(request)
            if made is not None:
                return made
        return super().add_view(request, form_url, extra_context)

    def _add_remote(self, request: HttpRequest) -> HttpResponse | None:
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = self.get_form(request, None, change=False)(request.POST)
        if not form.is_valid():
            # The ordinary view says what is wrong.
            return None
        values = {name: getattr(form.instance, name) for name in self.service_fields}
        values["owner"] = values["owner"] or request.user
        try:
            store = create_store(**values)
        except RAGError as error:
            self.message_user(request, error_sentence(error), messages.ERROR)
            kept = {name: request.POST.get(name, "") for name in ("name", "slug", "display_name")}
            return HttpResponseRedirect(
                f"{request.path}?{urlencode({**kept, 'backend': 'gemini'})}"
            )
        for name in ("reader_groups", "editor_groups"):
            if name in form.cleaned_data:
                getattr(store, name).set(form.cleaned_data[name])
        self.log_addition(request, store, [{"added": {}}])
        return self.response_add(request, store)

    @admin.action(description=gettext_lazy("Compare with Gemini"), permissions=["change"])
    def sync(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Synchronize counts and states of the chosen stores with Gemini."""
        stores = queryset.editable(scope_for(request))  # type: ignore[attr-defined]
        n = 0
        for store in stores.filter(backend=models.Store.Backend.GEMINI):
            try:
                sync_store(store=store)
                n += 1
            except RAGError as error:
                self.message_user(request, f"{store}: {error_sentence(error)}", messages.ERROR)
        text = ngettext("%(n)d store was compared.", "%(n)d stores were compared.", n) % {"n": n}
        self.message_user(request, text, messages.SUCCESS if n else messages.WARNING)

    @admin.display(description=gettext_lazy("kept at"))
    def kept_at(self, store: models.Store) -> SafeString | str:
        """Return the backend, with the state last seen at Gemini."""
        if not store.is_remote:
            return str(store.get_backend_display())
        return format_html("{} {}", store.get_backend_display(), gemini_state(store))

    at_gemini = column(gettext_lazy("at Gemini"), lambda store: gemini_state(store))


def gemini_state(store: models.Store) -> SafeString | str:
    """Return a store's state last seen at Gemini; a dash for local stores."""
    if not store.is_remote:
        return "–"
    remote = store.remote
    cells = [
        label(text % {"n": remote[name]}, colour)
        for name, (text, colour) in _STATES.items()
        if remote.get(name)
    ]
    if store.synced_at is None:
        cells.append(label(_("not compared yet"), "idle"))
    else:
        when = date_format(localtime(store.synced_at), "SHORT_DATETIME_FORMAT")
        cells.append(format_html('<span class="desk-note">{}</span>', when))
    if remote.get("error"):
        sentence = error_sentence(remote["error"])
        cells.append(format_html('<span class="desk-error">{}</span>', sentence))
    return join_cells(cells)

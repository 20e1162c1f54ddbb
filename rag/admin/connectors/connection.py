"""Connections in the admin: list, forms made of the connectors' options, syncs and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from rag import models
from rag.admin.connectors.connection_form import PREFIX, connection_form
from rag.admin.ui.admin_page import ObjectPage
from rag.admin.ui.cells import column, state_label
from rag.admin.ui.filters import StoreListFilter
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import OfStoreAdmin, OverviewAdmin, scope_for
from rag.core.errors import RAGError
from rag.services.connectors import (
    cancel_sync,
    delete_connection,
    save_connection,
    start_sync,
)
from rag.services.plugins import PluginInfo, list_plugins

N_RUNS = 20
# What a run tells, in this order.
OUTCOMES = {
    "new": _("new"),
    "changed": _("changed"),
    "renamed": _("renamed"),
    "deleted": _("deleted"),
    "restricted": _("other readers"),
    "same": _("unchanged"),
    "duplicate": _("same content as another"),
    "skipped": _("passed over"),
    "failed": _("failed"),
    "kept": _("not seen, kept"),
}


def counts_sentence(counts: Mapping[str, int]) -> str:
    """Return the figures of a run in words."""
    told = [f"{counts[what]} {words}" for what, words in OUTCOMES.items() if counts.get(what)]
    return ", ".join(told) or gettext("nothing to do")


def _last_run(connection: models.Connection) -> models.SyncRun | None:
    return connection.runs.first()


def _last_state(connection: models.Connection) -> SafeString | str:
    run = _last_run(connection)
    return state_label(run) if run else "–"


def _last_figures(connection: models.Connection) -> str:
    run = _last_run(connection)
    return counts_sentence(run.counts) if run and run.ended_at else "–"


class SyncProgressView(ObjectPage):
    """Progress of a connection's sync as JSON for its page's script; POST stops it."""

    permission_required = ("rag.view_connection",)

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Return the state and how many documents were looked at."""
        run = self.row.runs.first()
        known = self.row.store.files.filter(metadata__sync=self.row.name).count()
        return JsonResponse(
            {
                "is_busy": run is not None and run.state in models.SyncRun.BUSY,
                "state": state_label(run) if run else "",
                "n_done": run.n_listed if run else 0,
                "n_questions": max(known, run.n_listed if run else 0),
            }
        )

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.has_perm("rag.change_connection"):
            raise PermissionDenied
        ids = list(self.row.runs.filter(state__in=models.SyncRun.BUSY).values_list("pk", flat=True))
        cancel_sync(scope=scope_for(request), run_ids=ids)
        return HttpResponseRedirect(_page_of(self.row))


@admin.register(models.Connection)
class ConnectionAdmin(OfStoreAdmin, OverviewAdmin):
    """The connections of stores that one may change."""

    list_display = (
        "name",
        "store",
        "kind",
        "schedule",
        "last_state",
        "last_figures",
        "next_run_at",
    )
    list_select_related = ("store",)
    list_filter = (StoreListFilter, "connector")
    search_fields = ("name",)
    sortable_by = ("name",)
    change_form_outer_before_template = "admin/rag/connection_overview.html"

    kind = column(_("connector"), lambda row: _label_of(row.connector))
    last_state = column(_("last sync"), lambda row: _last_state(row))
    last_figures = column(_("figures"), lambda row: _last_figures(row))

    def pages(self) -> Sequence[tuple[str, Any, str]]:
        return (
            ("<int:pk>/sync/", require_POST(self.sync_view), "rag_connection_sync"),
            ("<int:pk>/progress/", SyncProgressView, "rag_connection_progress"),
        )

    def sync_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Start a sync by a worker; ``dry_run`` and ``force`` are what the buttons say."""
        connection = self.get_object(request, str(pk))
        if connection is None or not self.has_change_permission(request, connection):
            raise PermissionDenied
        self._start(
            request,
            connection,
            is_dry_run="dry_run" in request.POST,
            is_forced="force" in request.POST,
        )
        return HttpResponseRedirect(_page_of(connection))

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Let a connector be chosen, then show its form."""
        if _plugin(request.GET.get("connector", "")) is not None:
            return super().add_view(request, form_url, extra_context)
        if not self.has_add_permission(request):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": gettext("What is the store to follow?"),
            "plugins": list_plugins(kind="connector").plugins,
            "store": parse_int(request.GET.get("store")),
        }
        return TemplateResponse(request, "admin/rag/connector_choice.html", context)

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """Return the form of the connector, chosen or stored."""
        name = obj.connector if obj else request.GET.get("connector", "")
        plugin = _plugin(name)
        schema = plugin.schema if plugin else {"properties": {}, "required": []}
        kwargs |= {"form": connection_form(name, schema), "fields": None}
        return super().get_form(request, obj, change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        name = obj.connector if obj else request.GET.get("connector", "")
        plugin = _plugin(name)
        options = [f"{PREFIX}{one}" for one in (plugin.schema["properties"] if plugin else ())]
        return [
            (None, {"fields": ["store", "name"]}),
            (_label_of(name), {"fields": options}),
            (_("When, and how much"), {"fields": ["schedule", "max_documents", "max_minutes"]}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return store and name of a connection, by which its files are known."""
        return ["store", "name"] if obj else []

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save by the service; a new connection is synced at once."""
        if not change:
            obj.created_by = request.user
        save_connection(scope=scope_for(request), connection=obj)
        if not change:
            self._start(request, obj)

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> Any:
        """Go on to the connection's page, where its first sync is shown."""
        return HttpResponseRedirect(_page_of(obj))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete by the service; the files stay."""
        delete_connection(scope=scope_for(request), connection=obj)

    def overview(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Return the last syncs, and the report of one of them."""
        runs = list(obj.runs.select_related("created_by")[:N_RUNS])
        wanted = parse_int(request.GET.get("run"))
        shown = next((run for run in runs if run.pk == wanted), runs[0] if runs else None)
        files = obj.store.files.filter(metadata__sync=obj.name)
        steps = shown.steps if shown else []
        return {
            "connection": obj,
            "runs": [(run, state_label(run), counts_sentence(run.counts)) for run in runs],
            "shown": shown,
            "is_busy": bool(runs) and runs[0].state in models.SyncRun.BUSY,
            "error": error_sentence(shown.error) if shown else "",
            "problems": [_step(one) for one in steps if one.get("error")],
            "steps": [_step(one) for one in steps if not one.get("error")],
            "figures": counts_sentence(shown.counts) if shown else "",
            "n_files": files.count(),
            "may_edit": self.has_change_permission(request, obj),
            "is_refused": bool(shown and shown.error and "known" in shown.error["params"]),
        }

    def _start(self, request: HttpRequest, connection: models.Connection, **facts: Any) -> None:
        try:
            start_sync(
                scope=scope_for(request), connection=connection, created_by=request.user, **facts
            )
        except RAGError as error:
            self.message_user(request, error_sentence(error), messages.ERROR)


def _step(step: Mapping[str, Any]) -> tuple[str, str, str]:
    what = str(OUTCOMES.get(step["what"], step["what"]))
    return what, step["path"], error_sentence(step.get("error"))


def _page_of(connection: models.Connection) -> str:
    return reverse("admin:rag_connection_change", args=[connection.pk])


def _plugin(name: str) -> PluginInfo | None:
    found = [one for one in list_plugins(kind="connector").plugins if one.name == name]
    return found[0] if found else None


def _label_of(name: str) -> str:
    plugin = _plugin(name)
    return gettext(str(plugin.label)) if plugin else name

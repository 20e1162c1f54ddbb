"""Flow admin: list, access, and links to a flow's graph, versions and runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.utils.http import content_disposition_header
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from agents import models
from agents.admin.flow_edit import (
    NEW_FLOW,
    NEW_PROMPTS,
    EditFlowPage,
    handle_edit,
    render_graph,
    serialize_findings,
)
from agents.admin.flow_editor import editor_data
from agents.admin.flow_files import submitted_files, version_files
from agents.admin.flow_page import version_graph
from agents.admin.flow_versions import FlowGraphPage, FlowVersionsPage
from agents.flows.definition.archive import FlowFiles, write_flow_zip
from agents.flows.versions.versions import delete_flow, update_flow
from rag.admin.ui.cells import column, join_cells, label, list_link, page_link
from rag.admin.ui.conflict_form import ConflictCheckedForm
from rag.admin.ui.group_field import OwnedAdmin
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import scope_for
from rag.core.access import Scope
from rag.core.errors import NotFoundError, RAGError

SETTINGS = ("title", "is_public", "runner_groups", "editor_groups")


class FlowForm(ConflictCheckedForm):
    """A flow's title, and who may run and change it."""

    audit_kinds = ("flow", "flow runners", "flow editors")


@admin.register(models.Flow)
class FlowAdmin(OwnedAdmin):
    """The flows that one may run; what one may edit can be changed."""

    form = FlowForm
    change_form_before_template = "admin/rag/seen_field.html"
    list_display = (
        "name",
        "title",
        "version",
        "runs",
        "reviews",
        "visibility",
        "updated_at",
        "links",
    )
    search_fields = ("name", "title")
    sortable_by = ("name", "updated_at")
    autocomplete_fields = ("owner",)
    readonly_fields = ("name", "links", "picture", "created_at", "updated_at")
    fieldsets = (
        (None, {"fields": ("name", "title", "links", "picture")}),
        (
            _("Who may run and edit"),
            {"fields": ("owner", "is_public", "runner_groups", "editor_groups")},
        ),
        (_("Facts"), {"fields": ("created_at", "updated_at")}),
    )

    class Media:
        css = {"all": ("agents/admin/agents.css",)}

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        return queryset.runnable(scope)  # type: ignore[attr-defined,no-any-return]

    def complete_rows(self, rows: list[Any]) -> None:
        """Fetch each flow's active version, and its runs by two counts: one query each."""
        active = models.FlowVersion.objects.filter(flow__in=rows, is_active=True)
        numbers = dict(active.values_list("flow_id", "number"))
        runs = models.FlowRun.objects.filter(version__flow__in=rows).order_by()
        counts = runs.values_list("version__flow").annotate(
            n=Count("pk"), waiting=Count("pk", filter=Q(status=models.FlowRun.Status.PAUSED))
        )
        told_of = {flow: (n, waiting) for flow, n, waiting in counts}
        for row in rows:
            row.active_number = numbers.get(row.pk)
            row.run_counts = told_of.get(row.pk, (0, 0))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        given = form.cleaned_data
        values = {name: given[name] for name in (*SETTINGS, "owner") if name in given}
        update_flow(flow=obj, scope=scope_for(request), values=values)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Do nothing: the service has set the groups."""

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        delete_flow(flow=obj, scope=scope_for(request))

    def cascade_counts(self, rows: list[Any]) -> dict[Any, Any]:
        versions = models.FlowVersion.objects.filter(flow__in=rows)
        runs = models.FlowRun.objects.filter(version__flow__in=rows)
        found: tuple[QuerySet[Any], ...] = (versions, runs)
        return {one.model._meta.verbose_name_plural: one.count() for one in found}

    def pages(self) -> Sequence[tuple[str, Any, str]]:
        return (
            ("<int:pk>/edit/", EditFlowPage, "agents_flow_edit"),
            ("<int:pk>/versions/", FlowVersionsPage, "agents_flow_versions"),
            ("<int:pk>/run/", FlowGraphPage, "agents_flow_run"),
            ("<int:pk>/export/", self.export_view, "agents_flow_export"),
        )

    def export_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Return a version, the active one without ``?version=``, as a zip."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        flow = get_object_or_404(self.get_queryset(request), pk=pk)
        if not self.has_change_permission(request, flow):
            raise PermissionDenied
        number = parse_int(request.GET.get("version"))
        try:
            archive = write_flow_zip(version_files(flow, number))
        except NotFoundError as error:
            raise Http404 from error
        except RAGError as error:
            raise PermissionDenied from error
        name = f"{flow.name}-{number}.zip" if number else f"{flow.name}.zip"
        response = HttpResponse(archive, content_type="application/zip")
        response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
        return response

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Write a flow, or take one in that was exported."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        context: dict[str, Any] = {"files": FlowFiles(NEW_FLOW, NEW_PROMPTS)}
        status = 200
        if request.method == "POST":
            try:
                answer, context = handle_edit(request, submitted_files(request), None)
            except RAGError as error:
                answer, context = None, {**context, "error": error_sentence(error)}
            if answer:
                return answer
            status = 422
        context["prompts"] = sorted(context["files"].prompts.items())
        context["picture"] = render_graph(context["files"])
        page = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _("Add a flow"),
            "is_new": True,
            "findings": serialize_findings([]),
            "editor": editor_data(request, None, is_unsaved=request.method == "POST"),
            **context,
        }
        return TemplateResponse(request, "admin/agents/flow_edit.html", page, status=status)

    @admin.display(description=_("active version"))
    def version(self, flow: Any) -> Any:
        """Return the number of the version that runs."""
        number = getattr(flow, "active_number", None)
        return label(_("none"), "warn") if number is None else number

    runs = column(_("runs"), lambda flow: _runs_link(flow, flow.run_counts[0]))

    @admin.display(description=_("waiting"))
    def reviews(self, flow: Any) -> Any:
        """Return how many runs wait for a decision."""
        n = flow.run_counts[1]
        return _runs_link(flow, label(n, "warn"), status__exact="paused") if n else "–"

    @admin.display(description=_("go to"))
    def links(self, flow: models.Flow) -> SafeString:
        """Return the ways to the flow's pages."""
        ways = (("run", _("Run")), ("edit", _("Edit")), ("versions", _("Versions")))
        links = [page_link(f"agents_flow_{name}", flow.pk, text) for name, text in ways]
        return join_cells([*links, _runs_link(flow, _("Runs"))], by=" · ")

    picture = column(
        _("graph"),
        lambda flow: version_graph(flow.versions.filter(is_active=True).first()) or SafeString("–"),
    )


def _runs_link(flow: models.Flow, text: Any, **query: Any) -> SafeString:
    return list_link("agents_flowrun", text, flow=flow.pk, **query)

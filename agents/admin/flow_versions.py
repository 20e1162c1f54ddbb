"""Flow versions: diff, activate, roll back, run form, export as a zip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents import models
from agents.admin.flow_files import version_files
from agents.admin.flow_page import FlowPage, version_graph
from agents.flows.definition.archive import write_flow_zip
from agents.flows.versions.versions import activate_version, diff_flow_versions, roll_back_flow
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import ScopedAdmin, scope_for
from rag.core.errors import NotFoundError, RAGError

MAX_LISTED = 200


class FlowGraphPage(FlowPage):
    """The active version as a picture, with a form that runs it."""

    template_name = "admin/agents/flow_run_new.html"
    title = gettext_lazy("Run the flow")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the picture and, for editors, the versions to choose from."""
        version = self.chosen_version()
        numbers = self.flow.versions.values_list("number", flat=True)[:MAX_LISTED]
        return super().get_context_data(
            **kwargs,
            version=version,
            picture=version_graph(version),
            numbers=list(numbers) if self.may_edit else [],
        )


class FlowVersionsPage(FlowPage):
    """All versions with what changed between two of them."""

    template_name = "admin/agents/flow_versions.html"
    title = gettext_lazy("Versions")
    for_editors = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the versions and the difference of ``?old=`` and ``?new=``."""
        rows = list(self.flow.versions.select_related("created_by")[:MAX_LISTED])
        old, new = self._pair(rows)
        diff = None
        if old and new:
            diff = [_line(line) for line in diff_flow_versions(old=old, new=new).splitlines()]
        return super().get_context_data(**kwargs, versions=rows, old=old, new=new, diff=diff)

    def _pair(self, rows: list[models.FlowVersion]) -> tuple[Any, Any]:
        if "old" in self.request.GET:
            return self.chosen_version("old"), self.chosen_version("new")
        return (rows[1], rows[0]) if len(rows) > 1 else (None, None)

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        """Let another version run, or the one before."""
        self.require_editor()
        scope = scope_for(request)
        try:
            if request.POST.get("action") == "rollback":
                version: Any = roll_back_flow(flow=self.flow, scope=scope)
            else:
                version = self.chosen_version()
                if version is None:
                    raise Http404
                activate_version(version=version, scope=scope)
        except RAGError as error:
            return self.render_error(error)
        messages.success(request, _("Version %(n)d runs from now on.") % {"n": version.number})
        return redirect(request.path)


def flow_export_view(model_admin: ScopedAdmin) -> Callable[..., HttpResponse]:
    """Return a view that gives a version, the active one without ``?version=``, as a zip."""

    def export(request: HttpRequest, pk: int) -> HttpResponse:
        if not model_admin.has_view_permission(request):
            raise PermissionDenied
        flow = get_object_or_404(model_admin.get_queryset(request), pk=pk)
        if not model_admin.has_change_permission(request, flow):
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

    return export


def _line(line: str) -> tuple[str, str]:
    kinds = {"+": "came", "-": "went", "@": "place"}
    kind = "file" if line.startswith(("+++ ", "--- ")) else kinds.get(line[:1], "")
    return kind, line

"""Base view of a flow's pages: permission, chosen version, graph, errors as sentences."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString, mark_safe

from agents import models
from agents.flows.versions.render import render_flow_version
from rag.admin.ui.admin_page import ObjectPage
from rag.admin.ui.query_params import parse_int
from rag.core.errors import RAGError


class FlowPage(ObjectPage):
    """A page of a flow that the caller may run; ``for_editors`` keeps all others out."""

    permission_required: tuple[str, ...] = ("agents.view_flow",)
    for_editors = False

    @property
    def flow(self) -> models.Flow:
        """Return the flow of the address."""
        flow: models.Flow = self.row
        return flow

    @property
    def may_edit(self) -> bool:
        """Return whether the caller may change the flow."""
        request: HttpRequest = self.request
        return bool(self.model_admin.has_change_permission(request, self.flow))

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show the page; raises PermissionDenied."""
        self.require_editor()
        return super().get(request, *args, **kwargs)

    def require_editor(self) -> None:
        """Raise PermissionDenied if the page is for editors and the caller is none."""
        if self.for_editors and not self.may_edit:
            raise PermissionDenied

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the page's context with the flow and what the caller may do."""
        context = {"flow": self.flow, "may_edit": self.may_edit, **kwargs}
        return super().get_context_data(**context)

    def chosen_version(self, name: str = "version") -> models.FlowVersion | None:
        """Return the version that the address names, else the active one, else the newest."""
        rows = self.flow.versions.select_related("flow")
        number = parse_int(self.request.GET.get(name) or self.request.POST.get(name))
        if number:
            return rows.filter(number=number).first()
        return rows.filter(is_active=True).first() or rows.order_by("-number").first()


def version_graph(version: models.FlowVersion | None, run: Any = None) -> SafeString:
    """Return the graph of a version, empty where its YAML is no flow any more."""
    if version is None:
        return SafeString("")
    try:
        graph = render_flow_version(version=version, run=run)
    except RAGError:
        return SafeString("")
    return mark_safe(graph)

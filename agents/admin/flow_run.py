"""Flow runs in the admin: timeline, path through the graph, reviews that wait for a decision."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from agents import models
from agents.admin.flow_answer import answer_block
from agents.admin.flow_page import version_graph
from agents.admin.flow_visit import (
    FlowRunsComparePage,
    costs_text,
    node_state_label,
    shown_visit,
)
from agents.flows.runs.read import run_summary
from agents.flows.runs.visits import total_costs
from agents.runtime.scopes import may_read_run
from rag.admin.ui.admin_page import ObjectPage
from rag.admin.ui.cells import column, label, page_link
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import ReadOnlyAdmin, scope_for
from rag.core.access import Scope, may_edit
from rag.core.errors import NotFoundError

_STATUS = models.FlowRun.Status
COLOURS = {
    _STATUS.RUNNING: "busy",
    _STATUS.PAUSED: "warn",
    _STATUS.DONE: "good",
    _STATUS.ERROR: "bad",
    _STATUS.CANCELLED: "idle",
}


class FlowListFilter(admin.SimpleListFilter):
    """By flow: those that one may run."""

    title = _("flow")
    parameter_name = "flow"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[Any, str]]:
        """Return the flows, the first 200 by name."""
        flows = models.Flow.objects.runnable(scope_for(request))
        return list(flows.order_by("name").values_list("pk", "name")[:200])

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = parse_int(str(self.value() or ""))
        return queryset.filter(version__flow=value) if self.value() else queryset


class FlowRunPage(ObjectPage):
    """One run: its timeline, its path through the graph, its reviews."""

    template_name = "admin/agents/flow_run.html"
    permission_required = ("agents.view_flowrun",)
    title = _("Run")

    def get_template_names(self) -> list[str]:
        """Return the page, or what of it changes while the run goes on."""
        is_part = self.request.GET.get("part") == "1"
        return ["admin/agents/flow_run_part.html" if is_part else self.template_name]

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show the run, or with ``part=visit`` one of its visits; 404 for one that never was."""
        if request.GET.get("part") != "visit":
            return super().get(request, *args, **kwargs)
        try:
            shown = self._opened(str(request.GET.get("visit") or ""))
        except NotFoundError as error:
            raise Http404(str(error)) from None
        context = {"visit": shown, "run": self.row, "is_open": _is_open(self.row)}
        return render(request, "admin/agents/flow_visit.html", context)

    def _opened(self, place: str) -> dict[str, Any]:
        """Return the visit of ``number:node``."""
        number, _colon, node = place.partition(":")
        scope = scope_for(self.request)
        return shown_visit(self.row, scope, node, parse_int(number) or 1)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return what the caller may see of the run."""
        scope, run = scope_for(self.request), self.row
        summary = run_summary(run=run, scope=scope)
        is_editor = may_edit(scope, run.version.flow.facts)
        nodes = timeline(summary)
        opened = self.request.GET.get("visit") or _failed_place(nodes)
        for node in nodes:
            node["shown"] = self._opened(opened) if node["place"] == opened else None
        return super().get_context_data(
            **kwargs,
            run=run,
            summary=summary,
            nodes=nodes,
            answered_by=_answered_by(summary),
            costs=costs_text(total_costs(summary["nodes"])),
            status=label(run.get_status_display(), COLOURS[_STATUS(run.status)]),
            error=error_sentence(run.error),
            picture=version_graph(run.version, run),
            is_theirs=may_read_run(run=run, scope=scope),
            may_decide=is_editor,
            reviews=[_review(one) for one in summary["reviews"]] if is_editor else [],
            is_running=run.status == _STATUS.RUNNING,
            is_open=_is_open(run),
            is_failed=run.status == _STATUS.ERROR,
            api=f"/api/flows/{run.version.flow.name}/runs/{run.key}",
            answer=answer_block(summary),
            variables=sorted((summary["variables"] or {}).items()),
        )


@admin.register(models.FlowRun)
class FlowRunAdmin(ReadOnlyAdmin):
    """One's own runs, and all of the flows that one may edit; operators see all."""

    list_display = (
        "link",
        "flow",
        "status_label",
        "user",
        "n_steps",
        "tokens",
        "duration",
        "started_at",
    )
    list_display_links = None
    list_filter = (FlowListFilter, "status")
    sortable_by = ("started_at",)
    ordering = ("-id",)

    class Media:
        css = {"all": ("agents/admin/agents.css",)}

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        if scope.is_operator:
            return queryset
        if scope.user_id is None:
            return queryset.none()
        flows = models.Flow.objects.editable(scope)
        own = Q(user_id=scope.user_id, is_by_operator=False)
        return queryset.filter(own | Q(version__flow__in=flows))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the runs with their flows, without what they hold: it may be much."""
        rows = super().get_queryset(request).defer("start", "state", "version__yaml")
        return rows.select_related("version__flow", "user", "replay_of")

    def pages(self) -> Sequence[tuple[str, Any, str]]:
        return (
            ("<int:pk>/page/", FlowRunPage, "agents_flowrun_page"),
            ("<int:pk>/compare/", FlowRunsComparePage, "agents_flowrun_compare"),
            ("of/<uuid:key>/", self.by_key, "agents_flowrun_of"),
        )

    def by_key(self, request: HttpRequest, key: Any) -> HttpResponse:
        """Redirect from a run's key, as the API returns it, to its page."""
        run = get_object_or_404(self.get_queryset(request), key=key)
        return redirect("admin:agents_flowrun_page", run.pk)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Lead to the run's page: there is no form."""
        return redirect("admin:agents_flowrun_page", parse_int(object_id))

    link = column(_("run"), lambda run: page_link("agents_flowrun_page", run.pk, str(run.key)[:8]))
    flow = column(_("flow"), lambda run: Truncator(str(run.version)).chars(60))
    status_label = column(
        _("state"), lambda run: label(run.get_status_display(), COLOURS[_STATUS(run.status)])
    )
    tokens = column(_("tokens"), lambda run: f"{run.input_tokens} / {run.output_tokens}")
    duration = column(
        _("duration"),
        lambda run: (
            f"{(run.ended_at - run.started_at).total_seconds():.1f} s" if run.ended_at else "–"
        ),
    )


def _review(review: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pending review whose values can be edited as texts, or as JSON."""
    shown = []
    for one in review.get("editable") or ():
        is_text = isinstance(one["value"], str)
        text = one["value"] if is_text else json.dumps(one["value"], ensure_ascii=False, indent=1)
        shown.append({**one, "is_json": not is_text, "shown": text})
    return {**review, "editable": shown}


def _is_open(run: models.FlowRun) -> bool:
    return run.status in (_STATUS.RUNNING, _STATUS.PAUSED)


def timeline(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the visits of a run with their places on its time, in hundredths."""
    nodes = summary["nodes"]
    ends = [(one["offset_ms"] or 0) + (one["duration_ms"] or 0) for one in nodes]
    whole = max([*ends, summary["duration_ms"] or 0, 1])
    return [_node(one, whole) for one in nodes]


def _node(node: dict[str, Any], whole: float) -> dict[str, Any]:
    # Runs of before tell of their sources in English alone.
    faults = {name: error_sentence(fault) for name, fault in node["source_faults"].items()}
    return {
        **node,
        "place": f"{node['visit']}:{node['node']}",
        "label": node_state_label(node["status"]),
        "from": round(100 * (node["offset_ms"] or 0) / whole, 1),
        "width": max(0.6, round(100 * (node["duration_ms"] or 0) / whole, 1)),
        "sources": {**node["source_errors"], **faults},
        "costs": costs_text(node["costs"]),
        "error": error_sentence(node["error"]),
    }


def _failed_place(nodes: Sequence[Mapping[str, Any]]) -> str:
    return next((one["place"] for one in reversed(nodes) if one["status"] == "failed"), "")


def _answered_by(summary: Mapping[str, Any]) -> str:
    """Return the place of the visit that wrote the answer, empty without one."""
    texts = [one for one in summary["nodes"] if one["response_content"]]
    same = [one for one in texts if one["response_content"] == summary["answer"]]
    last = (same or texts)[-1:] if summary["answer"] else []
    return f"{last[0]['visit']}:{last[0]['node']}" if last else ""

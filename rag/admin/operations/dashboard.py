"""Dashboard: stores, files, jobs and query metrics on the admin's index page."""

from __future__ import annotations

from typing import Any

from django.db.models import Count
from django.http import HttpRequest
from django.utils.translation import gettext as _

from rag import models
from rag.admin.files.status import STATUS_COLOURS
from rag.admin.operations.job import NAME_PLURAL, STATE_LABELS
from rag.admin.stores.store import store_links
from rag.admin.ui.charts import bar_chart, line_chart
from rag.admin.ui.scoped import scope_for
from rag.services.files import visible_files
from rag.services.operations import DAYS, DashboardFigures, dashboard, stalled_jobs, visible_jobs

MAX_STORES = 6
_SHOWN_JOBS = ("todo", "doing", "failed")


def fill_dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Return the index page's context with stores and counts that the caller may see."""
    scope = scope_for(request)
    context["title"] = _("Overview")
    if request.user.has_perm("rag.view_store"):
        readable = models.Store.objects.readable(scope)
        stores = readable.order_by("-updated_at")[:MAX_STORES]
        context["stores"] = [{"store": store, "links": store_links(store)} for store in stores]
        context["n_stores"] = readable.count()
        context["n_chunks"] = sum(readable.order_by().values_list("n_chunks", flat=True))
    if request.user.has_perm("rag.view_file"):
        files = visible_files(scope=scope, rows=models.File.objects.order_by())
        counts = dict(files.values_list("status").annotate(n=Count("*")))
        context["n_files"] = sum(counts.values())
        context["file_counts"] = [
            {
                "status": state.value,
                "label": state.label,
                "colour": STATUS_COLOURS[state],
                "n": counts[state],
            }
            for state in models.File.Status
            if counts.get(state)
        ]
    if request.user.has_perm("procrastinate.view_procrastinatejob"):
        context["job_counts"] = _jobs(request)
    if request.user.has_perm("rag.view_querylog"):
        figures = dashboard(scope=scope)
        context |= {"figures": figures, "days": DAYS, "charts": _charts(figures)}
    for app in context.get("app_list", []):
        for model in app["models"]:
            if model["object_name"] == "ProcrastinateJob":
                model["name"] = NAME_PLURAL
    return context


def _jobs(request: HttpRequest) -> list[dict[str, Any]]:
    jobs = visible_jobs(scope=scope_for(request))
    ours = jobs.filter(status__in=_SHOWN_JOBS).exclude(queue_name="upkeep").order_by()
    counts = dict(ours.values_list("status").annotate(n=Count("pk")))
    found = [
        {
            "n": counts[state],
            "label": STATE_LABELS[state][0],
            "colour": STATE_LABELS[state][1],
            "state": state,
        }
        for state in _SHOWN_JOBS
        if counts.get(state)
    ]
    if n := stalled_jobs(jobs=jobs).count():
        found.append({"n": n, "label": _("stalled"), "colour": "bad", "state": "stalled"})
    return found


def _charts(figures: DashboardFigures) -> list[dict[str, Any]]:
    labels = [f"{day:%m-%d}" for day in figures.days]
    days = figures.days.values()
    bad = [None if d.bad_share is None else round(100 * d.bad_share, 1) for d in days]
    return [
        bar_chart(
            _("Queries a day"),
            list(zip(labels, (day.n_queries for day in days), strict=True)),
        ),
        line_chart(
            _("Time of a query"),
            labels,
            {
                _("Median latency"): [day.p50_ms for day in days],
                _("P95 latency"): [day.p95_ms for day in days],
            },
            unit=" ms",
        ),
        line_chart(
            _("Queries without a good match"), labels, {_("share"): bad}, top=100.0, unit=" %"
        ),
    ]

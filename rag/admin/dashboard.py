"""The first page: the stores at hand and what happens to their files."""

from __future__ import annotations

from typing import Any

from django.db.models import Count
from django.http import HttpRequest

from rag import models
from rag.admin.job import NAME_PLURAL
from rag.admin.scoped import scope_for
from rag.admin.status import COLOURS
from rag.admin.store import store_links

MAX_STORES = 6


def fill_dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Return the index page's context with stores and counts that the caller may see."""
    scope = scope_for(request)
    if request.user.has_perm("rag.view_store"):
        stores = models.Store.objects.readable(scope).order_by("-updated_at")[:MAX_STORES]
        context["stores"] = [{"store": store, "links": store_links(store)} for store in stores]
    if request.user.has_perm("rag.view_file"):
        files = models.File.objects.readable(scope).order_by()
        counts = dict(files.values_list("status").annotate(n=Count("pk")))
        context["file_counts"] = [
            {
                "status": state.value,
                "label": state.label,
                "colour": COLOURS[state],
                "n": counts[state],
            }
            for state in models.File.Status
            if counts.get(state)
        ]
    for app in context.get("app_list", []):
        for model in app["models"]:
            if model["object_name"] == "ProcrastinateJob":
                model["name"] = NAME_PLURAL
    return context

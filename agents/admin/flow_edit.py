"""Flow editor: YAML and prompts, checked with line and column, saved as a version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents import models
from agents.admin.flow_editor import editor_data
from agents.admin.flow_files import submitted_files
from agents.admin.flow_page import FlowPage
from agents.flows.definition.archive import FlowFiles
from agents.flows.definition.findings import FlowFinding
from agents.flows.versions.render import render_flow_text
from agents.flows.versions.versions import activate_version, check_flow_files, save_flow_version
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import scope_for
from rag.core.errors import RAGError

NEW_FLOW = """\
name: my_flow
description: What it is for.
nodes:
  - name: answer
    type: agent
    config:
      prompt: prompts/answer.md
edges:
  - from: answer
    to: END
entry_node: answer
"""
NEW_PROMPTS = {"prompts/answer.md": "Answer in a few sentences: {user_query}\n"}


class EditFlowPage(FlowPage):
    """Editor of the newest version, or of ``?version=``; saves a new version."""

    template_name = "admin/agents/flow_edit.html"
    permission_required = ("agents.view_flow", "agents.change_flow")
    title = gettext_lazy("Edit the flow")
    for_editors = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the texts, as typed or as stored."""
        if "files" not in kwargs:
            version = self.chosen_version()
            kwargs["files"] = FlowFiles(version.yaml, version.prompts) if version else FlowFiles("")
            kwargs["version"] = version
            kwargs["seen"] = self.flow.versions.aggregate(n=Max("number"))["n"] or 0
        files = kwargs["files"]
        return super().get_context_data(
            **kwargs,
            prompts=sorted(files.prompts.items()),
            picture=render_graph(files),
            editor=editor_data(self.request, self.flow, is_unsaved=self.request.method == "POST"),
        )

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        """Check or save what was typed."""
        self.require_editor()
        answer, context = handle_edit(request, submitted_files(request), self.flow)
        return answer or self.render_to_response(self.get_context_data(**context), status=422)


def handle_edit(
    request: HttpRequest, files: FlowFiles, flow: models.Flow | None
) -> tuple[HttpResponse | None, dict[str, Any]]:
    """Check, save or activate the posted flow; return a redirect, or the context to show again."""
    scope, action = scope_for(request), request.POST.get("action", "check")
    seen = parse_int(request.POST.get("seen"))
    context: dict[str, Any] = {"files": files, "note": request.POST.get("note", ""), "seen": seen}
    try:
        findings = check_flow_files(files=files, scope=scope)
        if action == "check":
            return None, {**context, "findings": serialize_findings(findings), "is_checked": True}
        with transaction.atomic():
            newer = _newer_version(flow, seen, files)
            if newer is not None:
                return None, {**context, "newer": newer, "opened": seen, "seen": newer.number}
            version = save_flow_version(files=files, scope=scope, note=context["note"][:200])
        if flow is not None and version.flow_id != flow.pk:
            messages.warning(request, _("The YAML names another flow: this is its page."))
        if action == "activate":
            activate_version(version=version, scope=scope)
            messages.success(request, _("Version %(n)d runs from now on.") % {"n": version.number})
        else:
            messages.success(request, _("Version %(n)d was saved.") % {"n": version.number})
        if findings and action != "activate":
            text = _("The check found things to mend (%(n)d): see them under Check.")
            messages.warning(request, text % {"n": len(findings)})
    except RAGError as error:
        place = error.params if {"line", "column"} <= error.params.keys() else {}
        context |= {"error": error_sentence(error), "place": place}
        return None, {**context, "findings": _check_again(files, scope)}
    return redirect(reverse("admin:agents_flow_versions", args=[version.flow_id])), {}


def _newer_version(
    flow: models.Flow | None, seen: int, files: FlowFiles
) -> models.FlowVersion | None:
    """Return a version that somebody else saved since the form was shown, unless equal."""
    if flow is None or not seen:
        return None
    # The row lock makes concurrent saves wait for each other.
    models.Flow.objects.select_for_update().get(pk=flow.pk)
    newest = flow.versions.select_related("created_by").order_by("-number").first()
    if newest is None or newest.number <= seen:
        return None
    return None if FlowFiles(newest.yaml, newest.prompts) == files else newest


def serialize_findings(findings: Sequence[FlowFinding]) -> list[dict[str, Any]]:
    """Return findings as dicts with localized sentences."""
    return [
        {
            "level": one.level,
            "line": one.line,
            "column": one.column,
            "text": error_sentence(one.error),
        }
        for one in findings
    ]


def _check_again(files: FlowFiles, scope: Any) -> list[dict[str, Any]]:
    try:
        return serialize_findings(check_flow_files(files=files, scope=scope))
    except RAGError:
        # Where the YAML is no flow, the error has said so.
        return []


def render_graph(files: FlowFiles) -> Any:
    """Return the SVG graph of the files, empty if they are no valid flow."""
    try:
        picture = render_flow_text(yaml=files.yaml, prompts=files.prompts)
    except RAGError:
        return ""
    return mark_safe(picture)

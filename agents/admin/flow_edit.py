"""A flow's YAML and prompts to be written: checked with line and column, saved as a version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents import models
from agents.admin.flow_files import typed_files
from agents.admin.flow_page import FlowPage
from agents.flows.finding import Finding
from agents.flows.folder import FlowFiles
from agents.services.flow_picture import text_picture
from agents.services.flow_versions import activate_version, check_files, save_flow_version
from rag.admin.scoped import scope_for
from rag.admin.sentences import error_sentence
from rag.core.errors import RAGError

NEW = """\
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


class EditFlow(FlowPage):
    """The newest version's texts, or those of ``?version=``, to be changed and saved anew."""

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
        files = kwargs["files"]
        return super().get_context_data(
            **kwargs, prompts=sorted(files.prompts.items()), picture=_picture(files)
        )

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        """Check or save what was typed."""
        self.refuse_others()
        answer, context = worked(request, typed_files(request), self.flow)
        return answer or self.render_to_response(self.get_context_data(**context), status=422)


def worked(
    request: HttpRequest, files: FlowFiles, flow: models.Flow | None
) -> tuple[HttpResponse | None, dict[str, Any]]:
    """Do what a form asks for: check, save, activate. Return where to go, or what to show again."""
    scope, action = scope_for(request), request.POST.get("action", "check")
    context: dict[str, Any] = {"files": files, "note": request.POST.get("note", "")}
    try:
        findings = check_files(files=files, scope=scope)
        if action == "check":
            return None, {**context, "findings": told(findings), "is_checked": True}
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
        return None, {**context, "findings": _found(files, scope)}
    return redirect(reverse("admin:agents_flow_versions", args=[version.flow_id])), {}


def told(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return findings with their sentences in the reader's language."""
    return [
        {
            "level": one.level, "line": one.line, "column": one.column,
            "text": error_sentence(
                {"message": one.message, "hint": one.hint, "params": one.params}
            ),
        }
        for one in findings
    ]  # fmt: skip


def _found(files: FlowFiles, scope: Any) -> list[dict[str, Any]]:
    try:
        return told(check_files(files=files, scope=scope))
    except RAGError:
        # Where the YAML is no flow, the error has said so.
        return []


def _picture(files: FlowFiles) -> Any:
    try:
        drawn = text_picture(yaml=files.yaml, prompts=files.prompts)
    except RAGError:
        return ""
    return mark_safe(drawn)

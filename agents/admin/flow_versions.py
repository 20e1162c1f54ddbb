"""Flow versions: diff, activate, roll back, run form."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents import models
from agents.admin.flow_page import FlowPage, version_graph
from agents.flows.versions.load import load_flow
from agents.flows.versions.versions import activate_version, diff_flow_versions, roll_back_flow
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import scope_for
from rag.core.errors import RAGError

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
            inputs=_inputs(version),
            wanted=parse_int(self.request.GET.get("version")),
            numbers=list(numbers) if self.may_edit else [],
        )


def _inputs(version: models.FlowVersion | None) -> list[dict[str, Any]]:
    """Return the inputs of a version, as its form asks for them; none where it is no flow."""
    if version is None:
        return []
    try:
        definition = load_flow(yaml=version.yaml, prompts=version.prompts).definition
    except RAGError:
        return []
    return [
        {
            **one.model_dump(),
            "name": name,
            "is_set": one.default is not None,
            "choices": [
                {"text": choice, "as_json": json.dumps(choice, ensure_ascii=False)}
                for choice in one.choices or ()
            ],
        }
        for name, one in definition.inputs.items()
    ]


class FlowVersionsPage(FlowPage):
    """All versions with what changed between two of them."""

    template_name = "admin/agents/flow_versions.html"
    title = gettext_lazy("Versions")
    for_editors = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the versions and the difference of ``?old=`` and ``?new=``."""
        rows = list(self.flow.versions.select_related("created_by")[:MAX_LISTED])
        old: Any = None
        new: Any = None
        diff = None
        if "old" in self.request.GET:
            old, new = self.chosen_version("old"), self.chosen_version("new")
        elif len(rows) > 1:
            new, old = rows[:2]
        if old and new:
            diff = [_line(line) for line in diff_flow_versions(old=old, new=new).splitlines()]
        return super().get_context_data(**kwargs, versions=rows, old=old, new=new, diff=diff)

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


def _line(line: str) -> tuple[str, str]:
    kinds = {"+": "came", "-": "went", "@": "place"}
    kind = "file" if line.startswith(("+++ ", "--- ")) else kinds.get(line[:1], "")
    return kind, line

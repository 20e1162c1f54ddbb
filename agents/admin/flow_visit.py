"""Visits of a run in the admin: what one did, as titled texts, and two runs side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents import models
from agents.flows.runs.compare import compare_flow_runs
from agents.flows.runs.trace import visit_trace
from rag.admin.ui.admin_page import ObjectPage
from rag.admin.ui.cells import label
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import scope_for
from rag.core.access import Scope
from rag.core.errors import RAGError

NODE_STATE_LABELS = {
    "running": (gettext_lazy("running"), "busy"),
    "waiting": (gettext_lazy("waits for a decision"), "warn"),
    "done": (gettext_lazy("done"), "good"),
    "failed": (gettext_lazy("failed"), "bad"),
    "ended": (gettext_lazy("ended"), "idle"),
}
# Parts of a state, in the order in which people look at them.
_PARTS = {
    "message": gettext_lazy("Message"),
    "given": gettext_lazy("Inputs of the flow"),
    "variables": gettext_lazy("Variables"),
    "history": gettext_lazy("Conversation before"),
    "turns": gettext_lazy("Texts of nodes"),
    "rag_results": gettext_lazy("Results of sources"),
}
_LEFT_OUT = ("last_text", "response", "grounding", "citations")
_DIFFERENCES = {
    "visit": gettext_lazy("only one run came here"),
    "status": gettext_lazy("state"),
    "answer": gettext_lazy("text"),
    "variables": gettext_lazy("variables"),
    "route": gettext_lazy("edge"),
}
MAX_RUNS = 50


def node_state_label(status: str) -> SafeString:
    """Return the state of a visit as a badge."""
    return label(*NODE_STATE_LABELS.get(status, (status, "idle")))


def as_text(value: Any) -> str:
    """Return a value as people read it: a text as it is, all else as JSON over lines."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def costs_text(costs: Mapping[str, str]) -> str:
    """Return costs by currency, as few digits as tell them apart from nothing."""
    return ", ".join(f"{float(amount):.4g} {name}" for name, amount in costs.items())


def shown_visit(run: models.FlowRun, scope: Scope, node: str, visit: int) -> dict[str, Any]:
    """Return what a visit did, as its part of the page shows it; raise NotFoundError."""
    found = visit_trace(run=run, scope=scope, node=node, visit=visit)
    route = found["route"] or {}
    return {
        **found,
        "inputs": list(_parts(found["inputs"] or {})),
        "inputs_missing": error_sentence(found.get("inputs_missing")),
        "outputs": list(_parts(_without_results(found))),
        "calls": [_call(one) for one in found["calls"]],
        "tools": [_tool(one) for one in found["tools"]],
        "tests": [_test(one) for one in route.get("tests") or ()],
        "error": error_sentence(found["error"]),
    }


def _without_results(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a visit added; what it retrieved is shown by itself."""
    shown_above = ("rag_results", "query_context") if found["retrieval"] else ()
    return {k: one for k, one in (found["outputs"] or {}).items() if k not in shown_above}


def _parts(state: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    for name, title in _PARTS.items():
        if name in state:
            yield title, as_text(state[name])
    for name, value in state.items():
        if name not in _PARTS and name not in _LEFT_OUT:
            yield name, as_text(value)


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    cost = {call["currency"]: call["cost"]} if call["cost"] else {}
    answer = call["answer"]
    return {
        **call,
        "cost": costs_text(cost),
        "answer": None if answer is None else as_text(answer),
        "error": error_sentence(call["error"]),
        "options": as_text(call["options"]) if call["options"] else "",
    }


def _tool(call: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **call,
        "arguments": as_text(call["arguments"] or {}),
        "answer": as_text(call["answer"]) if call["answer"] is not None else "",
        "error": error_sentence(call["error"]),
    }


def _test(test: Mapping[str, Any]) -> dict[str, Any]:
    values = [(name, as_text(value)) for name, value in (test["values"] or {}).items()]
    return {**test, "values": values, "verdict": label(*_VERDICTS[bool(test["is_true"])])}


_VERDICTS = {True: (gettext_lazy("holds"), "good"), False: (gettext_lazy("does not hold"), "idle")}


class FlowRunsComparePage(ObjectPage):
    """Two runs of a flow side by side, visit by visit."""

    template_name = "admin/agents/flow_run_compare.html"
    permission_required = ("agents.view_flowrun",)
    title = gettext_lazy("Compare runs")

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show the runs to choose from, or the two; 422 for one of another flow."""
        others = self.get_rows(request).filter(version__flow=self.row.version.flow_id)
        others = others.exclude(pk=self.row.pk)
        wanted = parse_int(request.GET.get("with"))
        other = others.filter(pk=wanted).first() if wanted else None
        context = {"run": self.row, "other": other, "others": others.order_by("-pk")[:MAX_RUNS]}
        try:
            rows = compare(self.row, other, scope_for(request)) if other else []
        except RAGError as error:
            return self.render_error(error, **context)
        return self.render_to_response(self.get_context_data(**context, rows=rows))


def compare(first: models.FlowRun, second: models.FlowRun, scope: Scope) -> list[dict[str, Any]]:
    """Return the rows of the comparison as the page shows them."""
    rows = compare_flow_runs(first=first, second=second, scope=scope)
    return [
        {
            **row,
            "sides": [
                (first, _("this run"), _side(row["first"])),
                (second, _("the other run"), _side(row["second"])),
            ],
            "differs": [_DIFFERENCES[name] for name in row["differs"]],
        }
        for row in rows
    ]


def _side(visit: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if visit is None:
        return None
    variables = visit.get("variables") or {}
    return {
        **visit,
        "label": node_state_label(visit["status"]),
        "costs": costs_text(visit["costs"]),
        "variables": as_text(variables) if variables else "",
    }

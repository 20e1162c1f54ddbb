"""Comparison of two runs of a flow, visit by visit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents import models
from agents.flows.runs.redact import redactor_of
from agents.flows.runs.visits import run_visits
from agents.runtime.scopes import may_read_run
from rag.core.access import Scope
from rag.core.errors import InvalidInputError

# What differs of a visit, and under which word it is told.
_COMPARED = {"status": "status", "response_content": "answer", "variables": "variables"}


def compare_flow_runs(
    *, first: models.FlowRun, second: models.FlowRun, scope: Scope
) -> list[dict[str, Any]]:
    """Return a row per visit of either run: node, visit, first, second and what differs.

    ``differs`` has status, answer, variables, route, or visit where one run never came there.
    Raises InvalidInputError for runs of two flows.
    """
    if first.version.flow_id != second.version.flow_id:
        raise InvalidInputError("The runs are of two flows.", hint="Choose runs of one flow.")
    sides = [_visits(run, scope) for run in (first, second)]
    return [
        {
            "node": node,
            "visit": visit,
            "first": sides[0].get((node, visit)),
            "second": sides[1].get((node, visit)),
            "differs": _differences(sides[0].get((node, visit)), sides[1].get((node, visit))),
        }
        for node, visit in dict.fromkeys((*sides[0], *sides[1]))
    ]


def _visits(run: models.FlowRun, scope: Scope) -> dict[tuple[str, int], dict[str, Any]]:
    is_theirs = may_read_run(run=run, scope=scope)
    visits = run_visits(run=run, is_theirs=is_theirs, gone=redactor_of(run=run))
    return {(one["node"], one["visit"]): one for one in visits}


def _differences(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> list[str]:
    if first is None or second is None:
        return ["visit"]
    found = [word for name, word in _COMPARED.items() if first.get(name) != second.get(name)]
    return found + (["route"] if first["route"] != second["route"] else [])

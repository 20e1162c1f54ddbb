"""Errors and findings of flows as sentences. In: JSON of services. Out: the request's language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.utils.translation import get_language

from agents.api.sse import worded
from agents.flows.finding import Finding


def worded_run(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run with its own error and those of its nodes as sentences."""
    run = worded(told, _language())
    if "nodes" in run:
        run["nodes"] = [worded(node, _language()) for node in run["nodes"]]
    return run


def worded_findings(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return findings as level, line, column and a sentence."""
    told = []
    for one in findings:
        error = {"message": one.message, "hint": one.hint, "params": one.params}
        said = worded({"error": error}, _language())["error"]
        told.append({
            "level": one.level, "line": one.line, "column": one.column,
            "message": f"{said['message']} {said['hint']}".strip(),
        })  # fmt: skip
    return told


def _language() -> str:
    return get_language() or str(settings.LANGUAGE_CODE)

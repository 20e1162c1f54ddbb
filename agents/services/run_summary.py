"""How a run went. In: a run. Out: JSON with its nodes' times, tokens, routes and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents import models
from agents.services.run_scope import may_read_run, scope_of_run
from agents.services.visible_passages import visible_passages
from rag.core.access import Scope

_STATUS = models.FlowRun.Status
_KINDS = ("node_started", "model_answer", "rag_results", "tool", "node_finished", "node_failed",
          "route")  # fmt: skip
# What stands in the run's own words: for its user alone.
_PRIVATE = ("message", "given", "answer", "variables", "state")


def run_summary(
    *, run: models.FlowRun, scope: Scope, is_whole: bool = False, has_nodes: bool = True
) -> dict[str, Any]:
    """Return what ``scope`` may see of a run, with the end state when ``is_whole``.

    Whoever steers another's run gets None for message, answer, variables and state.
    """
    state = run.state or {}
    told: dict[str, Any] = {
        "key": str(run.key), "flow": run.version.flow.name, "version": run.version.number,
        "status": run.status, "error": run.error, "reviews": run.reviews, "model": run.model,
        "message": (run.start.get("current_message") or {}).get("content", ""),
        "given": run.start.get("prompt_vars") or {},
        "answer": _answer(run), "variables": state.get("edges_var") or {},
        "replay_of": str(run.replay_of.key) if run.replay_of else None,
        "has_recorded_answers": run.has_recorded_answers, "n_steps": run.n_steps,
        "input_tokens": run.input_tokens, "output_tokens": run.output_tokens,
        "started_at": run.started_at.isoformat(),
        "ended_at": run.ended_at.isoformat() if run.ended_at else None,
        "duration_ms": _ms(run),
    }  # fmt: skip
    is_theirs = may_read_run(run=run, scope=scope)
    if is_whole:
        told["state"] = visible_passages(values=[run.state], scope=scope_of_run(run=run))[0]
    if not is_theirs:
        told |= {name: None for name in _PRIVATE if name in told}
    if has_nodes:
        told["nodes"] = _nodes(run, is_theirs)
    return told


def _answer(run: models.FlowRun) -> str:
    turns = (run.state or {}).get("flow_msgs") or [{}]
    return str(turns[-1].get("content", "")) if run.status == _STATUS.DONE else ""


def _ms(run: models.FlowRun) -> float | None:
    if run.ended_at is None:
        return None
    return round((run.ended_at - run.started_at).total_seconds() * 1e3, 1)


def _nodes(run: models.FlowRun, is_theirs: bool) -> list[dict[str, Any]]:
    """Return one entry per visit, in the order in which they began."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for row in run.events.filter(kind__in=_KINDS).order_by("seq"):
        told = found.setdefault((row.node, row.visit), {
            "node": row.node, "visit": row.visit, "status": "running", "started_at": None,
            "duration_ms": None, "input_tokens": 0, "output_tokens": 0, "models": [],
            "n_tools": 0, "n_results": None, "source_errors": {}, "source_faults": {},
            "route": None, "error": None,
        })  # fmt: skip
        _add(told, row.kind, row.data, row.at.isoformat())
        if row.kind == "node_finished" and is_theirs:
            told["variables"] = row.data.get("variables") or {}
        if row.kind == "node_failed":
            told["error"] = run.error
    waiting = {(one["node"], one["visit"]) for one in run.reviews}
    for place, told in found.items():
        if told["status"] == "running" and place in waiting:
            told["status"] = "waiting"
        elif told["status"] == "running" and run.ended_at is not None:
            told["status"] = "ended"
    return list(found.values())


def _add(told: dict[str, Any], kind: str, data: Mapping[str, Any], at: str) -> None:
    if kind == "node_started":
        told |= {"status": "running", "started_at": at, "error": None}
    elif kind == "model_answer":
        told["input_tokens"] += data.get("input_tokens") or 0
        told["output_tokens"] += data.get("output_tokens") or 0
        if data.get("model") and data["model"] not in told["models"]:
            told["models"].append(data["model"])
    elif kind == "tool":
        told["n_tools"] += 1
    elif kind == "rag_results":
        told["n_results"] = sum((data.get("counts") or {}).values())
        told["source_errors"] = data.get("errors") or {}
        told["source_faults"] = data.get("faults") or {}
    elif kind == "route":
        told["route"] = dict(data)
    elif kind == "node_finished":
        told |= {"status": "done", "duration_ms": data.get("duration_ms")}
    elif kind == "node_failed":
        told |= {"status": "failed", "duration_ms": data.get("duration_ms")}

"""Visits of a run: one entry for each time that a node was reached, with its time and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from agents import models
from agents.flows.runs.redact import RunRedactor
from rag.services.usage import price_of

_KINDS = (
    "node_started",
    "model_answer",
    "model_failed",
    "rag_results",
    "tool",
    "node_finished",
    "node_failed",
    "route",
)


def run_visits(*, run: models.FlowRun, is_theirs: bool, gone: RunRedactor) -> list[dict[str, Any]]:
    """Return one entry per visit, in the order in which they began.

    ``is_theirs`` lets the words of the run through.
    """
    found: dict[tuple[str, int], dict[str, Any]] = {}
    rows = run.events.filter(kind__in=_KINDS).defer("record", "trace").order_by("seq")
    for row in rows:
        entry = found.setdefault((row.node, row.visit), _new_visit(row.node, row.visit))
        _add(entry, row.kind, row.data, row.at, run.started_at)
        if row.kind == "node_finished" and is_theirs:
            told = gone.event(row.kind, row.data)
            entry["variables"] = told.get("variables") or {}
            entry["response_content"] = told.get("response_content") or ""
        if row.kind == "node_failed":
            entry["error"] = run.error
    waiting = {(one["node"], one["visit"]) for one in run.reviews}
    for key, entry in found.items():
        if entry["status"] == "running" and key in waiting:
            entry["status"] = "waiting"
        elif entry["status"] == "running" and run.ended_at is not None:
            entry["status"] = "ended"
    return list(found.values())


def total_costs(visits: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return what visits cost together, by currency, as far as prices are known."""
    totals: dict[str, Decimal] = {}
    for one in visits:
        for currency, cost in one["costs"].items():
            totals[currency] = totals.get(currency, Decimal(0)) + Decimal(cost)
    return {currency: str(total) for currency, total in totals.items()}


def call_cost(*, model: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return cost and currency of a model's answer, None where no price is known."""
    price = price_of(model=model) if model else None
    cost = price.cost(data.get("input_tokens"), data.get("output_tokens")) if price else None
    if price is None or cost is None:
        return {"cost": None, "currency": ""}
    return {"cost": str(cost), "currency": price.currency}


def _new_visit(node: str, visit: int) -> dict[str, Any]:
    return {
        "node": node,
        "visit": visit,
        "status": "running",
        "started_at": None,
        "offset_ms": None,
        "duration_ms": None,
        "input_tokens": 0,
        "output_tokens": 0,
        "costs": {},
        "models": [],
        "n_tools": 0,
        "n_results": None,
        "source_errors": {},
        "source_faults": {},
        "route": None,
        "error": None,
        "response_content": "",
    }


def _add(
    entry: dict[str, Any], kind: str, data: Mapping[str, Any], at: datetime, began: datetime
) -> None:
    if kind == "node_started":
        # A replay has visits of the run before it.
        offset_ms = max(0.0, round((at - began).total_seconds() * 1e3, 1))
        entry |= {"status": "running", "started_at": at.isoformat(), "error": None}
        entry["offset_ms"] = offset_ms
    elif kind == "model_answer":
        _add_answer(entry, data)
    elif kind == "tool":
        entry["n_tools"] += 1
    elif kind == "rag_results":
        entry["n_results"] = sum((data.get("counts") or {}).values())
        entry["source_errors"] = data.get("errors") or {}
        entry["source_faults"] = data.get("faults") or {}
    elif kind == "route":
        entry["route"] = dict(data)
    elif kind == "node_finished":
        entry |= {"status": "done", "duration_ms": data.get("duration_ms")}
    elif kind == "node_failed":
        entry |= {"status": "failed", "duration_ms": data.get("duration_ms")}


def _add_answer(entry: dict[str, Any], data: Mapping[str, Any]) -> None:
    entry["input_tokens"] += data.get("input_tokens") or 0
    entry["output_tokens"] += data.get("output_tokens") or 0
    model = str(data.get("model") or "")
    if model and model not in entry["models"]:
        entry["models"].append(model)
    told = call_cost(model=model, data=data)
    if told["cost"] is not None:
        before = Decimal(entry["costs"].get(told["currency"], 0))
        entry["costs"][told["currency"]] = str(before + Decimal(told["cost"]))

"""How a run begins and stands when its worker leaves it. In: values. Out: event and row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from agents import models
from agents.services.error_code import error_code
from agents.services.run_log import EventLog
from rag.core.errors import RAGError


def beginning(run: models.FlowRun) -> dict[str, Any]:
    """Return what the first event tells: which run of what it is."""
    version = run.version
    return {"run": str(run.key), "flow": version.flow.name, "version": version.number}


def ending(
    kind: str, status: str, log: EventLog, values: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the last event tells and what the run's row keeps."""
    row = {
        "status": status, "reviews": [], "n_steps": log.n_steps, "input_tokens": log.input_tokens,
        "output_tokens": log.output_tokens,
        "ended_at": None if kind == "paused" else timezone.now(), **values,
    }  # fmt: skip
    if kind == "paused":
        return {"reviews": values["reviews"]}, row
    if kind == "done":
        turns = values["state"].get("flow_msgs") or [{}]
        variables = values["state"].get("edges_var") or {}
        return {"answer": turns[-1].get("content", ""), "variables": variables}, row
    return dict(values), row


def fault_of(error: BaseException) -> dict[str, Any]:
    """Return how an error is told; of one that is no RAGError its kind, and nothing it holds."""
    if isinstance(error, RAGError):
        return {**error.as_dict(), "code": error_code(error)}
    fault = RAGError(
        "The flow has a fault ({kind}).", hint="The server's log says where.",
        kind=type(error).__name__,
    )  # fmt: skip
    return {**fault.as_dict(), "code": "internal"}

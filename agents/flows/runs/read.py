"""Reading flow runs: look-up by key, lists, JSON summary with times, tokens and errors of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet

from agents import models
from agents.flows.definition.state import last_turn
from agents.flows.runs.redact import RunRedactor, redact_hits, redactor_of, redactors_of
from agents.flows.runs.visits import run_visits
from agents.runtime.scopes import check_may_control, is_uuid, may_read_run, run_scope
from rag.core.access import Scope, may_edit
from rag.core.errors import NotFoundError


def find_run(*, flow: models.Flow, key: str, scope: Scope) -> models.FlowRun:
    """Return a run of ``flow`` that is one's own, or any for the flow's editors.

    Raises NotFoundError alike for none and for one that is hidden.
    """
    found = flow_runs(flow=flow).filter(key=key).first() if is_uuid(key) else None
    if found is None:
        raise NotFoundError("There is no run “{key}”.", key=key)
    check_may_control(run=found, scope=scope)
    return found


def find_readable_run(*, flow: models.Flow, key: str, scope: Scope) -> models.FlowRun:
    """Return a run whose words and results ``scope`` may see; raise NotFoundError."""
    found = find_run(flow=flow, key=key, scope=scope)
    if not may_read_run(run=found, scope=scope):
        raise NotFoundError("There is no run “{key}”.", key=key)
    return found


def listed_runs(*, flow: models.Flow, scope: Scope) -> QuerySet[models.FlowRun]:
    """Return all runs of a flow for its editors, for others their own."""
    rows = flow_runs(flow=flow)
    if may_edit(scope, flow.facts):
        return rows
    if scope.user_id is None:
        return rows.none()
    return rows.readable(scope)


def flow_runs(*, flow: models.Flow) -> models.run.FlowRunQuerySet:
    """Return the runs of all versions of a flow, with what is shown of them: not their texts."""
    rows = models.FlowRun.objects.filter(version__flow=flow)
    joined = rows.select_related("version__flow", "user", "replay_of")
    return joined.defer("version__yaml", "version__prompts", "replay_of__state", "replay_of__start")


_STATUS = models.FlowRun.Status
# What stands in the run's own words: for its user alone.
_PRIVATE = (
    "message",
    "given",
    "answer",
    "citations",
    "grounding",
    "passages",
    "variables",
)


def run_summary(*, run: models.FlowRun, scope: Scope, is_whole: bool = False) -> dict[str, Any]:
    """Return what ``scope`` may see of a run and its nodes, with the end state when ``is_whole``.

    Whoever steers another's run gets None for message, answer, variables and state.
    """
    gone, is_theirs = redactor_of(run=run), may_read_run(run=run, scope=scope)
    summary = _summary(run, is_theirs, gone)
    if is_whole:
        kept = gone.state(run.state)
        shown = redact_hits(values=[kept], scope=run_scope(run=run))[0]
        summary["state"] = shown if is_theirs else None
    return {**summary, "nodes": run_visits(run=run, is_theirs=is_theirs, gone=gone)}


def run_summaries(*, runs: Sequence[models.FlowRun], scope: Scope) -> list[dict[str, Any]]:
    """Return what ``scope`` may see of the runs of a page, as ``run_summary`` without nodes."""
    gone = redactors_of(runs=runs)
    return [_summary(run, may_read_run(run=run, scope=scope), gone[run.pk]) for run in runs]


def _summary(run: models.FlowRun, is_theirs: bool, gone: RunRedactor) -> dict[str, Any]:
    state = gone.state(run.state) or {}
    told = gone.answer(
        {
            # Runs of before kept it in their state alone.
            "answer": (run.answer or last_turn(state)) if run.status == _STATUS.DONE else "",
            "citations": run.citations,
            "grounding": run.grounding,
        }
    )
    spent = run.ended_at - run.started_at if run.ended_at else None
    summary: dict[str, Any] = {
        "key": str(run.key),
        "flow": run.version.flow.name,
        "version": run.version.number,
        "status": run.status,
        "error": run.error,
        "reviews": gone.reviews(run.reviews),
        "model": run.model,
        "message": (run.start.get("current_message") or {}).get("content", ""),
        "given": run.start.get("prompt_vars") or {},
        **told,
        "outcome": run.outcome,
        "passages": gone.hits(run.passages),
        "variables": state.get("edges_var") or {},
        "replay_of": str(run.replay_of.key) if run.replay_of else None,
        "has_recorded_answers": run.has_recorded_answers,
        "n_steps": run.n_steps,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        "started_at": run.started_at.isoformat(),
        "ended_at": run.ended_at.isoformat() if run.ended_at else None,
        "duration_ms": None if spent is None else round(spent.total_seconds() * 1e3, 1),
    }
    return summary if is_theirs else {**summary, **dict.fromkeys(_PRIVATE)}

"""Runs by their key. In: a flow, who asks. Out: rows that they may see or steer."""

from __future__ import annotations

from django.db.models import QuerySet

from agents import models
from agents.services.find_message import is_key
from agents.services.run_scope import check_may_steer, may_read_run
from rag.core.access import Scope, may_edit
from rag.core.errors import NotFoundError


def find_run(*, flow: models.Flow, key: str, scope: Scope) -> models.FlowRun:
    """Return a run of ``flow`` that is one's own, or any for the flow's editors.

    Raises NotFoundError alike for none and for one that is hidden.
    """
    found = flow_runs(flow=flow).filter(key=key).first() if is_key(key) else None
    if found is None:
        raise NotFoundError("There is no run “{key}”.", key=key)
    check_may_steer(run=found, scope=scope)
    return found


def own_run(*, flow: models.Flow, key: str, scope: Scope) -> models.FlowRun:
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
    """Return the runs of all versions of a flow, with what is told of them: not their texts."""
    rows = models.FlowRun.objects.filter(version__flow=flow)
    told = rows.select_related("version__flow", "user", "replay_of")
    return told.defer("version__yaml", "version__prompts", "replay_of__state", "replay_of__start")

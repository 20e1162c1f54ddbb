"""For whom a run is. In: a run. Out: the rights of its user as they are now; who may steer it."""

from __future__ import annotations

from dataclasses import replace

from agents import models
from rag.core.access import Scope, may_edit
from rag.core.errors import NotFoundError
from rag.services.access import scope_of


def scope_of_run(*, run: models.FlowRun) -> Scope:
    """Return the scope that a run's sources are asked with, whoever continues it."""
    if run.user is None and run.is_by_operator:
        return Scope.operator()
    return replace(scope_of(run.user), key_id=run.key_id)


def may_read_run(*, run: models.FlowRun, scope: Scope) -> bool:
    """Return whether ``scope`` may see what a run was told and found: its user, operators.

    Editors of its flow see how it went, not what it holds: its sources answered to its user.
    """
    if scope.only_store_ids is not None:
        return False
    return scope.is_operator or (run.user_id == scope.user_id and not run.is_by_operator)


def check_may_steer(*, run: models.FlowRun, scope: Scope) -> None:
    """Raise NotFoundError unless ``scope`` is the run's user, an editor of its flow, an operator.

    A run of nobody is steered by whoever knows its key.
    """
    is_theirs = run.user_id == scope.user_id and not run.is_by_operator
    if not is_theirs and not may_edit(scope, run.version.flow.facts):
        raise NotFoundError("There is no run “{key}”.", key=run.key)

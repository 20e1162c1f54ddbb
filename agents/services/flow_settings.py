"""Who may run and change a flow, and its title. In: values, who asks. Out: the row, changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from agents import models
from rag.core.access import Scope, may_edit
from rag.core.errors import ConflictError, ForbiddenError

_MANY = ("runner_groups", "editor_groups")
_STATUS = models.FlowRun.Status


def change_flow(*, flow: models.Flow, scope: Scope, values: Mapping[str, Any]) -> models.Flow:
    """Return the flow with title, groups or publicity changed; ForbiddenError for non-editors."""
    check_may_edit(flow=flow, scope=scope)
    with transaction.atomic():
        for name, value in values.items():
            if name in _MANY:
                getattr(flow, name).set(value)
            else:
                setattr(flow, name, value)
        flow.save()
    return flow


def delete_flow(*, flow: models.Flow, scope: Scope) -> None:
    """Delete a flow with its versions and runs; raise ConflictError while one is at work."""
    check_may_edit(flow=flow, scope=scope)
    with transaction.atomic():
        models.Flow.objects.select_for_update().get(pk=flow.pk)
        n_open = models.FlowRun.objects.filter(version__flow=flow, status=_STATUS.RUNNING).count()
        if n_open:
            raise ConflictError(
                "The flow “{name}” has runs at work ({n}).", hint="Cancel them, or wait.",
                name=flow.name, n=n_open,
            )  # fmt: skip
        flow.delete()


def check_may_edit(*, flow: models.Flow, scope: Scope) -> None:
    """Raise ForbiddenError unless ``scope`` is the flow's owner, an editor, an operator."""
    if not may_edit(scope, flow.facts):
        raise ForbiddenError("Only editors may change the flow “{name}”.", name=flow.name)

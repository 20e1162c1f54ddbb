"""Flow look-up by name and number, permissions, update and deletion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from agents import models
from rag.core.access import Scope, may_edit
from rag.core.errors import ConflictError, ForbiddenError, NotFoundError


def find_flow(*, name: str, scope: Scope) -> models.Flow:
    """Return a flow that ``scope`` may run; raise NotFoundError alike for none and a hidden one."""
    # No flow has such a name, and Postgres takes no NUL.
    found = models.Flow.objects.runnable(scope).filter(name=name.replace("\0", "\ufffd")).first()
    if found is None:
        raise NotFoundError("There is no flow “{name}”.", name=name)
    return found


def find_version(*, flow: models.Flow, number: int | None) -> models.FlowVersion:
    """Return a version by its number, None for the active one; raise NotFoundError."""
    if number is None:
        return active_version(flow=flow)
    found = flow.versions.filter(number=number).select_related("flow").first()
    if found is None:
        known = ", ".join(str(one) for one in flow.versions.values_list("number", flat=True))
        raise NotFoundError(
            "The flow “{name}” has no version {number}.",
            hint="Known: {known}.",
            name=flow.name,
            number=number,
            known=known or "none",
        )
    return found


def active_version(*, flow: models.Flow) -> models.FlowVersion:
    """Return the version that runs; raise ConflictError when none is active."""
    found = flow.versions.filter(is_active=True).select_related("flow").first()
    if found is None:
        raise ConflictError(
            "The flow “{name}” has no active version.", hint="Activate one.", name=flow.name
        )
    return found


_MANY = ("runner_groups", "editor_groups")
_STATUS = models.FlowRun.Status


def update_flow(*, flow: models.Flow, scope: Scope, values: Mapping[str, Any]) -> models.Flow:
    """Return the flow with title, groups or publicity changed; ForbiddenError for non-editors."""
    require_flow_editor(flow=flow, scope=scope)
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
    require_flow_editor(flow=flow, scope=scope)
    with transaction.atomic():
        models.Flow.objects.select_for_update().get(pk=flow.pk)
        n_open = models.FlowRun.objects.filter(version__flow=flow, status=_STATUS.RUNNING).count()
        if n_open:
            raise ConflictError(
                "The flow “{name}” has runs at work ({n}).",
                hint="Cancel them, or wait.",
                name=flow.name,
                n=n_open,
            )
        flow.delete()


def require_flow_editor(*, flow: models.Flow, scope: Scope) -> None:
    """Raise ForbiddenError unless ``scope`` is the flow's owner, an editor, an operator."""
    if not may_edit(scope, flow.facts):
        raise ForbiddenError("Only editors may change the flow “{name}”.", name=flow.name)

"""Flows and versions by name and number. In: who asks. Out: rows, or an error that says why not."""

from __future__ import annotations

from agents import models
from rag.core.access import Scope
from rag.core.errors import ConflictError, NotFoundError


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
            "The flow “{name}” has no version {number}.", hint="Known: {known}.",
            name=flow.name, number=number, known=known or "none",
        )  # fmt: skip
    return found


def active_version(*, flow: models.Flow) -> models.FlowVersion:
    """Return the version that runs; raise ConflictError when none is active."""
    found = flow.versions.filter(is_active=True).select_related("flow").first()
    if found is None:
        raise ConflictError(
            "The flow “{name}” has no active version.", hint="Activate one.", name=flow.name
        )
    return found

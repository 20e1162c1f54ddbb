"""Scopes of sessions and runs: rights of their owner as they are now, and who may control a run."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace

from django.contrib.auth.models import Group

from agents import models
from rag.core.access import Scope, Visitor, may_edit
from rag.core.errors import NotFoundError
from rag.core.hits import Hit
from rag.services.access import scope_of
from rag.services.answers import pin_hits
from rag.services.chunks import hold_chunks


def owner_scope(*, session: models.Session) -> Scope:
    """Return the rights, as they are now, of the one person who may read a session."""
    if session.widget is not None:
        return widget_scope(widget=session.widget, digest=session.visitor)
    ids = session.only_store_ids
    return replace(scope_of(session.user), only_store_ids=None if ids is None else frozenset(ids))


def widget_scope(*, widget: models.Widget, digest: str) -> Scope:
    """Return what visitors of a widget may see: what is public, and what its group may read.

    A group that may change stores or agents by now counts for nothing: its members see more.
    """
    group = widget.group
    groups = frozenset[int]()
    if group is not None and not may_change_anything(group):
        groups = frozenset({group.pk})
    return Scope(user_id=None, group_ids=groups, visitor=Visitor(widget.pk, digest))


def may_change_anything(group: Group) -> bool:
    """Return whether members of the group may change some store, agent or flow."""
    changed = ("editable_stores", "editable_agents", "editable_flows")
    return any(getattr(group, name).exists() for name in changed)


def run_scope(*, run: models.FlowRun) -> Scope:
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


def check_may_control(*, run: models.FlowRun, scope: Scope) -> None:
    """Raise NotFoundError unless ``scope`` is the run's user, an editor of its flow, an operator.

    A run of nobody is steered by whoever knows its key.
    """
    is_theirs = run.user_id == scope.user_id and not run.is_by_operator
    if not is_theirs and not may_edit(scope, run.version.flow.facts):
        raise NotFoundError("There is no run “{key}”.", key=run.key)


def is_uuid(text: str) -> bool:
    """Return whether a text is a key at all."""
    try:
        return bool(uuid.UUID(text))
    except ValueError:
        return False


def are_there(chunk_ids: Iterable[int]) -> bool:
    """Return whether all of the chunks are there; none is deleted until the transaction ends.

    Asked by whoever writes down what was made of them a moment before.
    """
    asked = set(chunk_ids)
    return hold_chunks(asked).issuperset(asked)


def readable_chunks(chunk_ids: Iterable[int], scope: Scope) -> frozenset[int]:
    """Return those of the chunks that are there and that ``scope`` may read."""
    hits = [Hit(text="", rank=1, chunk_id=pk) for pk in dict.fromkeys(chunk_ids)]
    return frozenset(
        hit.chunk_id for hit in pin_hits(hits=hits, scope=scope) if hit.chunk_id is not None
    )

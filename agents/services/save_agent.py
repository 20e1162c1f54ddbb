"""Agents made and changed. In: values, who asks. Out: the row, or an error that says why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction

from agents import models
from agents.core.agent_config import AgentConfig
from rag.core.access import Scope, may_edit
from rag.core.errors import ConflictError, ForbiddenError
from rag.services import wiring
from rag.services.stores import find_stores

_MANY = ("reader_groups", "editor_groups")


def save_agent(
    *, scope: Scope, values: Mapping[str, Any], agent: models.Agent | None = None,
    stores: Sequence[str] | None = None, owner: Any = None,
) -> models.Agent:  # fmt: skip
    """Return a new agent, or ``agent`` with ``values`` changed; ``stores`` None leaves them.

    Raises InvalidInputError for a config or model that no answer could use, NotFoundError for a
    store that may not be read, ConflictError for a name that is taken.
    """
    if scope.only_store_ids is not None:
        raise ForbiddenError("This key is limited to some stores and cannot change agents.")
    if agent is not None and not may_edit(scope, agent.facts):
        raise ForbiddenError("You may read “{name}”, not change it.", name=str(agent))
    AgentConfig.from_dict(values.get("config") or {}, of=values.get("name") or "agent")
    if values.get("model"):
        wiring.chat_model(values["model"])
    found = None if stores is None else find_stores(names=list(stores), scope=scope)
    row = agent or models.Agent(owner=owner)
    for name, value in values.items():
        if name not in _MANY:
            setattr(row, name, value)
    try:
        with transaction.atomic():
            row.save()
            for name in _MANY:
                if name in values:
                    getattr(row, name).set(values[name])
            if found is not None:
                row.stores.set(found)
    except IntegrityError as error:
        raise ConflictError("An agent “{name}” exists already.", name=row.name) from error
    return row


def delete_agent(*, agent: models.Agent, scope: Scope) -> None:
    """Delete an agent; its conversations stay with their people. ConflictError for a built-in."""
    if scope.only_store_ids is not None or not may_edit(scope, agent.facts):
        raise ForbiddenError("You may read “{name}”, not change it.", name=str(agent))
    if agent.is_builtin:
        raise ConflictError(
            "The agent “{name}” is built in.", hint="Switch it off instead.", name=agent.name
        )
    agent.delete()

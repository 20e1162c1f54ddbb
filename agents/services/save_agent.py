"""Agents made and changed. In: values, who asks. Out: the row, or an error that says why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction

from agents import models
from agents.core.agent_config import AgentConfig
from agents.services.check_agent import check_agent
from rag.core.access import Scope, may_edit
from rag.core.errors import ConflictError, ForbiddenError
from rag.services import wiring
from rag.services.stores import find_stores

_MANY = ("reader_groups", "editor_groups")
# How often a new agent may think, or choose others to ask, where its maker does not say.
TURNS: dict[str, int] = {models.Agent.Type.REACT: 8, models.Agent.Type.SUPERVISOR: 3}


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
    row = agent or models.Agent(owner=owner)
    name, kind = (str(values.get(key) or getattr(row, key)) for key in ("name", "agent_type"))
    given = values.get("config", row.config)
    config = AgentConfig.from_dict(given or {}, of=name or "agent")
    if agent is None or values.keys() & {"name", "agent_type", "config"}:
        check_agent(name=name, kind=kind, config=config, scope=scope)
    if agent is None and "max_iterations" not in values:
        values = {**values, "max_iterations": TURNS.get(kind, 1)}
    if values.get("model"):
        wiring.chat_model(values["model"])
    found = None if stores is None else find_stores(names=list(stores), scope=scope)
    for field, value in values.items():
        if field not in _MANY:
            setattr(row, field, value)
    try:
        with transaction.atomic():
            row.save()
            for field in _MANY:
                if field in values:
                    getattr(row, field).set(values[field])
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

"""Agents created, changed, validated and deleted.

Each name that nobody knows is an error that lists the known ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction

from agents import models
from agents.chat.agents.tools import agent_servers, agent_sources
from agents.core.agent_config import DEFAULT_ITERATIONS, AgentConfig
from agents.core.source_configs import DataSourceConfig
from agents.flows.versions.environment import flow_environment
from rag.core.access import Scope, may_edit
from rag.core.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    UnknownNameError,
)
from rag.services.stores import find_stores
from rag.services.wiring import registry as wiring

_SUPERVISOR = models.Agent.Type.SUPERVISOR


def check_agent(*, name: str, kind: str, config: AgentConfig, scope: Scope) -> None:
    """Raise UnknownNameError, InvalidInputError or NotFoundError for a config of no use.

    Stores of sources and the agents that a supervisor asks must be readable for ``scope``, and
    none of these agents may ask it.
    """
    environment = flow_environment(scope=scope)
    for tool in config.tools:
        environment.check_tool(tool)
    for source in agent_sources(config=config).values():
        given = DataSourceConfig.model_construct(type=source.call.plugin, **source.call.options)
        environment.check_source(given)
    for server in agent_servers(config=config):
        environment.check_server(server)
    if kind == _SUPERVISOR:
        _check_members(name, config, scope)


def _check_members(name: str, config: AgentConfig, scope: Scope) -> None:
    readable = models.Agent.objects.readable(scope).exclude(name=name).order_by("name")
    known = list(readable.values_list("name", flat=True)[:100])
    for member in config.agents:
        if member == name:
            raise InvalidInputError("The agent “{name}” would ask itself.", name=name)
        if member not in known and not readable.filter(name=member).exists():
            raise UnknownNameError("agent", member, known)
    if not config.agents:
        raise InvalidInputError(
            "A supervisor needs agents that it can ask.",
            hint="Name them in “agents”. Known: {known}.",
            known=", ".join(known) or "-",
        )
    if way := _find_cycle(name, config.agents):
        seen = {name, *readable.filter(name__in=way).values_list("name", flat=True)}
        # Agents of others are on the way, but not told.
        told = (one if one in seen else "…" for one in way)
        raise InvalidInputError(
            "The agent “{name}” would be asked by itself: {way}.",
            hint="Take one of them out of the circle.",
            name=name,
            way=" → ".join(told),
        )


def _find_cycle(name: str, members: list[str]) -> list[str]:
    """Return how supervisors lead back to ``name``, empty where they do not."""
    ways = [[name, member] for member in members]
    seen = set(members)
    while ways:
        way = ways.pop()
        row = models.Agent.objects.filter(name=way[-1], agent_type=_SUPERVISOR).first()
        for member in row.settings.agents if row else ():
            if member == name:
                return [*way, name]
            if member not in seen:
                seen.add(member)
                ways.append([*way, member])
    return []


_MANY = ("reader_groups", "editor_groups")


def save_agent(
    *,
    scope: Scope,
    values: Mapping[str, Any],
    agent: models.Agent | None = None,
    stores: Sequence[str] | None = None,
    owner: Any = None,
) -> models.Agent:
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
        values = {**values, "max_iterations": DEFAULT_ITERATIONS.get(kind, 1)}
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
        raise ConflictError.name_taken(row.name) from error
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

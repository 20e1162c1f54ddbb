"""Whether an agent could ever answer. In: its config, who saves it. Out: nothing, or what is wrong.

Each name that nobody knows is an error that lists the known ones.
"""

from __future__ import annotations

from agents import models
from agents.core.agent_config import AgentConfig
from agents.flows.source_configs import DataSourceConfig
from agents.services.react_sources import sources_in
from agents.services.surroundings import surroundings_of
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, UnknownNameError

_SUPERVISOR = models.Agent.Type.SUPERVISOR


def check_agent(*, name: str, kind: str, config: AgentConfig, scope: Scope) -> None:
    """Raise UnknownNameError, InvalidInputError or NotFoundError for a config of no use.

    Stores of sources and the agents that a supervisor asks must be readable for ``scope``, and
    none of these agents may ask it.
    """
    house = surroundings_of(scope=scope)
    for tool in config.tools:
        house.check_tool(tool)
    for source in sources_in(config=config).values():
        given = DataSourceConfig.model_construct(type=source.call.plugin, **source.call.options)
        house.check_source(given)
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
            hint="Name them in “agents”. Known: {known}.", known=", ".join(known) or "-",
        )  # fmt: skip
    if way := _way_back(name, config.agents):
        seen = {name, *readable.filter(name__in=way).values_list("name", flat=True)}
        # Agents of others are on the way, but not told.
        told = (one if one in seen else "…" for one in way)
        raise InvalidInputError(
            "The agent “{name}” would be asked by itself: {way}.",
            hint="Take one of them out of the circle.", name=name, way=" → ".join(told),
        )  # fmt: skip


def _way_back(name: str, members: list[str]) -> list[str]:
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

"""Exposure of an agent: hosts that it and those it asks may call, and where they look."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from agents import models
from agents.chat.agents.tools import MEMORY_TOOL, agent_servers
from agents.runtime.outbound import Exposure, exposure_of
from rag.core.access import Scope
from rag.core.plugins import PLUGINS, outbound_hosts


def agent_exposure(
    *, agent: models.Agent, scope: Scope, chunk_ids: Collection[int] = ()
) -> Exposure:
    """Return what an agent could tell whom of what ``scope`` may read.

    ``chunk_ids`` are what the conversation before rests on. A supervisor tells one agent what
    another found, so all of its team count as one.
    """
    team = _team(agent)
    hosts = frozenset(host for one in team for host in _hosts(one))
    if not hosts:
        return Exposure()
    shown = set(chunk_ids)
    if any(one.settings.enable_memory or MEMORY_TOOL in _tools(one) for one in team):
        memories = models.Memory.objects.readable(scope).exclude(chunk_ids=[])
        shown |= {pk for ids in memories.values_list("chunk_ids", flat=True) for pk in ids}
    return exposure_of(
        subject=agent,
        authors=team,
        hosts=hosts,
        scope=scope,
        store_ids=_store_ids(team),
        chunk_ids=shown,
    )


def _team(agent: models.Agent) -> list[models.Agent]:
    """Return an agent and all that it may ask, directly or not."""
    found, waiting = {agent.pk: agent}, [agent]
    while waiting:
        one = waiting.pop()
        if one.agent_type != models.Agent.Type.SUPERVISOR or not one.settings.agents:
            continue
        rows = models.Agent.objects.filter(name__in=one.settings.agents, is_enabled=True)
        new = [row for row in rows.exclude(pk__in=found) if row.pk is not None]
        found |= {row.pk: row for row in new}
        waiting += new
    return list(found.values())


def _tools(agent: models.Agent) -> Sequence[str]:
    return agent.settings.tools if agent.agent_type == models.Agent.Type.REACT else ()


def _sources(agent: models.Agent) -> list[Mapping[str, object]]:
    if agent.agent_type != models.Agent.Type.REACT:
        return []
    return [one for one in agent.settings.sources.values() if isinstance(one, Mapping)]


def _hosts(agent: models.Agent) -> set[str]:
    called = [(PLUGINS.get("source", str(one.get("type"))), one) for one in _sources(agent)]
    tools = [PLUGINS.get("tool", name) for name in _tools(agent)]
    found = [outbound_hosts(plugin, options) for plugin, options in called]
    found += [outbound_hosts(tool, {}) for tool in tools]
    is_react = agent.agent_type == models.Agent.Type.REACT
    servers = agent_servers(config=agent.settings) if is_react else []
    return {host for hosts in found for host in hosts} | {one.host for one in servers}


def _store_ids(team: Sequence[models.Agent]) -> set[int] | None:
    """Return the stores that a team looks into, None for whatever who asks may read."""
    ids: set[int] = set()
    for one in team:
        if one.agent_type == models.Agent.Type.SUPERVISOR:
            continue
        own = set(one.stores.values_list("pk", flat=True))
        if not own or _sources(one):
            # A source may search stores of its own choice.
            return None
        ids |= own
    return ids

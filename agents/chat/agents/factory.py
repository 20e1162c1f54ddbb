"""Agent factory: the rag, react or supervisor agent of a row, and its graph as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agents import models
from agents.chat.agents.rag_agent import RAGAgent
from agents.chat.agents.team import AgentTeam, MakeAgent, team_of
from agents.core.agent import Team
from agents.core.draw_graph import END, START, GraphEdge, GraphNode, draw_graph
from agents.core.pipeline import Pipeline
from rag.core.access import Scope
from rag.services.threads import run_db


class SupervisorAgent(RAGAgent):
    """``agents.core.agent.Agent``; ``path`` names the agents on whose behalf it is asked."""

    kind = "supervisor"

    def __init__(
        self,
        agent: models.Agent,
        scope: Scope,
        stores: Sequence[Any],
        *,
        make: MakeAgent,
        path: Sequence[str] = (),
        pipeline: Pipeline | None = None,
    ) -> None:
        super().__init__(agent, scope, stores, pipeline=pipeline)
        self._make, self._path = make, path
        self._members: AgentTeam | None = None

    @property
    def usage(self) -> Mapping[str, int]:
        """Return its own tokens and those of the agents that it asked."""
        members = self._members.usage if self._members else {}
        own = super().usage
        return {name: own.get(name, 0) + members.get(name, 0) for name in {**own, **members}}

    async def _team(self) -> Team:
        self._members = await run_db(
            team_of,
            agent=self._agent,
            scope=self._scope,
            stores=self._stores,
            path=self._path,
            make=self._make,
        )
        self._members.person = self.person
        return self._members


class ReactAgent(RAGAgent):
    """``agents.core.agent.Agent`` with a loop of tools."""

    kind = "react"


def agent_for(
    *, agent: models.Agent, scope: Scope, stores: Sequence[Any], path: Sequence[str] = ()
) -> RAGAgent:
    """Return an ``agents.core.agent.Agent`` for one question of ``scope``, looking into ``stores``.

    ``path`` names the agents on whose behalf it is asked: it never asks these.
    """
    if agent.agent_type == models.Agent.Type.SUPERVISOR:
        return SupervisorAgent(agent, scope, stores, make=agent_for, path=path)
    if agent.agent_type == models.Agent.Type.REACT:
        return ReactAgent(agent, scope, stores)
    return RAGAgent(agent, scope, stores)


def render_agent_graph(*, agent: models.Agent) -> str:
    """Return what happens inside an agent."""
    made = agent_for(agent=agent, scope=Scope.anonymous(), stores=())
    graph: Any = made.export_graph("json")
    nodes = [GraphNode(START, state="border"), *(GraphNode(one["name"]) for one in graph["nodes"])]
    edges = [
        GraphEdge(one["source"], one["target"], "?" if one["kind"] == "conditional" else "")
        for one in graph["edges"]
    ]
    return draw_graph([*nodes, GraphNode(END, state="border")], edges, str(agent))

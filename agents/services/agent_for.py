"""The agent of a row, whatever its type. In: a row, who asks, where. Out: the one interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents import models
from agents.services.rag_agent import RAGAgent
from agents.services.supervisor_agent import SupervisorAgent
from rag.core.access import Scope


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

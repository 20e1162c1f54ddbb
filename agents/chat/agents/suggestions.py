"""Suggested questions of an agent: those of its maker, else what its documents answer."""

from __future__ import annotations

from agents import models
from agents.chat.agents.agent import agent_stores
from rag.core.access import Scope
from rag.services.stores import suggest_questions


def suggested_questions(
    *, agent: models.Agent, scope: Scope, store: str = "", limit: int = 4, is_chinese: bool = False
) -> list[str]:
    """Return up to ``limit`` questions to begin with, of one store or of all that are read.

    Raises NotFoundError for a store that is none of the agent's.
    """
    stores = agent_stores(agent=agent, scope=scope, names=[store] if store else ())
    own = [line.strip() for line in agent.settings.suggested_questions.splitlines() if line.strip()]
    if own and not store:
        return own[:limit]
    return suggest_questions(stores=stores, scope=scope, is_chinese=is_chinese, limit=limit)

"""An agent's prompt enhancer: its own, or that of one request; none nobody knows, no empty search."""

from __future__ import annotations

import pytest

from agents.chat.agents.agent import agent_for
from rag.core.errors import RAGError
from tests.integration.agent_world import CITED, AgentWorld, world

__all__ = ["world"]
QUESTION = "How often is the pump serviced?"


def test_question_and_sources_are_worded_by_the_enhancer(world: AgentWorld) -> None:
    chat = world.use(CITED)
    world.set(enhancement="analytical")
    told = world.ask(QUESTION)
    asked = chat.requests[-1].messages[-1].content
    assert "Analysis task: <question>" in asked and "<document id=" in asked
    assert told.row.citations[0]["verdict"] == "verified"

    world.set(enhancement="none")
    world.ask(QUESTION)
    assert "Analysis task" not in chat.requests[-1].messages[-1].content
    world.set(enhancement="loud")
    with pytest.raises(RAGError, match="loud"):
        world.ask(QUESTION)


def test_an_agent_that_searches_needs_a_store(world: AgentWorld) -> None:
    with pytest.raises(RAGError, match="no store"):
        agent_for(agent=world.agent, scope=world.scope, stores=[])

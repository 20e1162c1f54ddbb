"""RAG_TIMEOUT_S bounds the calls of agents and flows as it does those of ``ask``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from agents import models
from agents.flows.runs.start import RunRequest
from agents.flows.versions.versions import import_flow
from tests.fakes.openai_server import OpenAIServer, Script
from tests.integration.agent_world import AgentWorld, world
from tests.integration.flow_world import run_flow

__all__ = ["world"]
# Loading the SDK is none of a call's time.
assert openai.OpenAI
ASKED = "How often is the pump serviced?"
FLOW = """\
name: slow
nodes:
  - {name: answer, type: agent, config: {prompt: prompts/answer.md}}
edges:
  - {from: answer, to: END}
entry_node: answer
"""
SCRIPTS = {
    "hangs": Script(pieces=(), ending="hang"),
    "never ends": Script(pieces=("word ",) * 300, pause_s=0.1),
}


@pytest.fixture
def server(world: AgentWorld, settings: Any) -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        own = {"OPENAI_BASE_URL": server.url, "CHAT_MODEL": "openai_compatible:m"}
        settings.RAG = {**settings.RAG, **own, "TIMEOUT_S": 30.0}
        # The first answer of a process loads the engine.
        world.ask(ASKED)
        settings.RAG = {**settings.RAG, "TIMEOUT_S": 0.6}
        yield server


@pytest.mark.parametrize("way", SCRIPTS)
@pytest.mark.parametrize("kind", ["rag", "react", "supervisor"])
def test_an_agent_gives_up_after_the_configured_time(
    world: AgentWorld, server: OpenAIServer, kind: str, way: str
) -> None:
    server.chat = SCRIPTS[way]
    models.Agent.objects.create(name="pumps", owner=world.user, config=dict(world.agent.config))
    models.Agent.objects.filter(pk=world.agent.pk).update(agent_type=kind)
    world.agent.refresh_from_db()
    world.set(agents=["pumps"], enable_fast_path=False)
    started = time.perf_counter()
    told = world.ask(ASKED)
    # A supervisor plans, asks and merges: a call each.
    assert 0.5 < time.perf_counter() - started < 5.0
    said = str([event.data for event in told.events])
    assert "RAG_TIMEOUT_S" in said or "provider_timeout" in said
    assert told.row.outcome != "answered"


@pytest.mark.parametrize("way", SCRIPTS)
def test_a_flow_gives_up_after_the_configured_time(
    world: AgentWorld, server: OpenAIServer, tmp_path: Path, way: str
) -> None:
    server.chat = SCRIPTS[way]
    (tmp_path / "prompts").mkdir()
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    (tmp_path / "prompts" / "answer.md").write_text("Answer: {user_query}", encoding="utf-8")
    flow = import_flow(path=tmp_path, scope=world.scope).flow
    started = time.perf_counter()
    run = run_flow(request=RunRequest(flow=flow, scope=world.scope, message=ASKED))
    assert 0.5 < time.perf_counter() - started < 4.0
    assert (run.status, run.error["code"]) == ("error", "provider_timeout")
    assert "RAG_TIMEOUT_S" in run.error["hint"]


def test_a_slow_model_is_waited_for(world: AgentWorld, server: OpenAIServer, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "TIMEOUT_S": 20.0}
    server.chat = Script(pieces=("The pump ", "is serviced every 30 days."), pause_s=0.8)
    told = world.ask(ASKED)
    assert told.row.outcome == "answered"
    assert told.text.startswith("The pump is serviced every 30 days.")

"""Flows on real SDKs against loopback servers: named endpoints, thinking, forms, several loops."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agents import models
from agents.flows.definition.archive import FlowFiles
from agents.flows.runs.start import RunRequest
from agents.flows.versions.versions import activate_version, save_flow_version
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, UnknownNameError
from rag.services.wiring import registry as wiring
from tests.fakes.gemini_server import GeminiServer
from tests.fakes.openai_server import OpenAIServer, Script
from tests.integration.flow_world import run_flow

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_wiring")]
OPERATOR = Scope.operator()
SCHEMA = {"type": "object", "required": ["verdict"], "properties": {"verdict": {"type": "string"}}}


@pytest.fixture
def doubao(settings: Any) -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        server.key = "sk-doubao"
        server.chat = Script(
            pieces=('{"verdict": ', '"good", "response_content": "好"}'), reasoning=("hm", "m")
        )
        endpoints = {"doubao": {"base_url": server.url, "api_key": "sk-doubao"}}
        settings.RAG = {**settings.RAG, "CHAT_ENDPOINTS": endpoints}
        yield server


def flow_of(model: dict[str, Any], **config: Any) -> models.Flow:
    nodes = [{"name": "a", "type": "agent", "config": {"prompt": "a.md", "model": model, **config}}]
    text = json.dumps(
        {"name": "x", "nodes": nodes, "edges": [{"from": "a", "to": "END"}], "entry_node": "a"}
    )
    version = save_flow_version(files=FlowFiles(text, {"a.md": "Answer as JSON."}), scope=OPERATOR)
    activate_version(version=version, scope=OPERATOR)
    return version.flow


def ask(flow: models.Flow) -> models.FlowRun:
    return run_flow(request=RunRequest(flow=flow, scope=OPERATOR, message="hello"))


SEED = {
    "provider": "doubao",
    "name": "doubao-seed-1-8",
    "temperature": 0.7,
    "thinking": {"type": "enabled"},
    "reasoning_effort": "high",
    "timeout": 1800,
}


def test_a_model_of_the_description_is_called_as_it_is_written(doubao: OpenAIServer) -> None:
    flow = flow_of(SEED, output_schema=SCHEMA)
    for _ in range(2):
        # Each of these has an event loop of its own.
        run = ask(flow)
        assert (run.status, run.error) == ("done", None)
    sent = doubao.calls[-1].json
    assert (sent["model"], sent["temperature"], sent["reasoning_effort"]) == (
        "doubao-seed-1-8",
        0.7,
        "high",
    )
    assert sent["thinking"] == {"type": "enabled"}
    assert sent["response_format"]["json_schema"]["schema"] == SCHEMA
    assert run.state["edges_var"] == {"verdict": "good", "parse_error": False}
    answer = run.events.get(kind="model_answer")
    assert answer.data["model"] == "doubao:doubao-seed-1-8"
    assert "hm" not in answer.record


def test_no_secret_gets_into_a_run(doubao: OpenAIServer) -> None:
    doubao.key = "another"
    run = ask(flow_of(SEED))
    assert run.status == "error"
    assert run.error["params"]["status"] == "401"
    everything = json.dumps([run.error, run.state, list(run.events.values_list("data", flat=True))])
    assert "sk-doubao" not in everything


def test_an_unknown_provider_is_refused_when_the_flow_is_activated(doubao: OpenAIServer) -> None:
    with pytest.raises(
        InvalidInputError, match=r"Unknown chat provider “qwen”. Known: doubao, extractive, gemini"
    ):
        flow_of({**SEED, "provider": "qwen"})
    with pytest.raises(UnknownNameError, match="doubao"):
        wiring.chat_model("nobody:x")


def test_gemini_is_asked_in_its_own_words(settings: Any) -> None:
    with GeminiServer() as server:
        settings.RAG = {**settings.RAG, "GEMINI_API_KEY": server.key, "GEMINI_BASE_URL": server.url}
        model = {"provider": "gemini", "name": "gemini-2.5-flash", "thinking": {"type": "disabled"}}
        flow = flow_of(model)
        for _ in range(2):
            run = ask(flow)
            assert run.error is None
        sent = server.calls[-1].json["generationConfig"]
        assert sent["thinkingConfig"] == {"thinking_budget": 0}
        assert (
            run.events.filter(kind="model_answer").last().data["model"] == "gemini:gemini-2.5-flash"
        )


def test_without_a_key_a_flow_is_not_activated(settings: Any) -> None:
    settings.RAG = {**settings.RAG, "GEMINI_API_KEY": ""}
    with pytest.raises(InvalidInputError, match="GEMINI_API_KEY|key"):
        flow_of({"provider": "gemini", "name": "gemini-2.5-flash"})

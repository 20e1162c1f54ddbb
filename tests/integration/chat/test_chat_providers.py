"""Agents on the real SDKs against loopback servers: what a provider does wrong ends in a clean error."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from agents import models
from agents.chat.answers.control import start_answer, stop_answer
from agents.chat.answers.create import MessageRequest
from agents.chat.answers.worker import AnswerWorker
from rag.services.wiring import registry as wiring
from tests.fakes.gemini_server import GeminiServer
from tests.fakes.gemini_server import Script as GeminiScript
from tests.fakes.loopback import Fault
from tests.fakes.openai_server import OpenAIServer, Script
from tests.integration.agent_world import QUOTE, AgentWorld, settled, world

__all__ = ["world"]
PIECES = ("Every ", '<cite doc_id="doc_01" ', f'quote="{QUOTE}">', "30 days", "</cite>", ".")


@pytest.fixture
def provider(world: AgentWorld, settings: Any) -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        endpoints = {"local": {"base_url": server.url, "api_key": "k"}}
        settings.RAG = {**settings.RAG, "CHAT_ENDPOINTS": endpoints, "CHAT_MODEL": "local:m"}
        wiring._chat_model.cache_clear()
        server.chat = Script(pieces=PIECES)
        yield server


def test_the_words_of_a_service_are_the_log_s_and_the_hint_names_where_it_was_set(
    world: AgentWorld, provider: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    provider.fail(Fault(status=401, body={"error": {"message": "quota of 10.0.0.7"}}, times=9))
    told = world.ask("How often is the pump serviced?")
    assert "10.0.0.7" in caplog.text and "10.0.0.7" not in f"{told.last.data} {told.row.error}"
    assert told.last.data["error"]["params"]["key_setting"] == "RAG_CHAT_ENDPOINTS[local]"


def test_an_answer_of_a_remote_model_is_cited(world: AgentWorld, provider: OpenAIServer) -> None:
    told = world.ask("How often is the pump serviced?")
    assert told.text == "Every 30 days[1]."
    row = told.row
    assert row.model == "local:m" and row.usage == {"input_tokens": 11, "output_tokens": 6}
    asked = provider.calls[-1].json
    assert asked["stream"] is True and asked["temperature"] == 0.2 and asked["max_tokens"] == 2048


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"ending": "cut"}, "provider"),
        ({"ending": "error"}, "provider"),
        ({"ending": "quiet"}, "provider"),
        ({"ending": "garbage"}, "provider"),
        ({"html": True}, "provider"),
        ({"ending": "hang"}, "provider_timeout"),
        ({"pieces": ()}, "provider"),
        ({"pieces": (), "refusal": "no"}, "provider"),
    ],
)
def test_a_provider_that_dies_ends_in_a_clean_error(
    world: AgentWorld, provider: OpenAIServer, change: dict[str, Any], code: str
) -> None:
    provider.chat = Script(**{"pieces": PIECES[:1], **change})
    world.set(generate_timeout_s=1.0)
    started = time.monotonic()
    told = world.ask("How often is the pump serviced?")
    assert time.monotonic() - started < 4
    assert (told.last.kind, told.last.data["code"]) == ("error", code)
    assert "Traceback" not in str(told.last.data)
    row = told.row
    assert row.status == "error" and row.content == told.text and row.error


async def test_a_stop_closes_the_connection_to_the_model(
    world: AgentWorld, provider: OpenAIServer
) -> None:
    provider.chat = Script(pieces=("word ",) * 500, pause_s=0.05)
    order = MessageRequest(
        agent=world.agent, scope=world.scope, message="How often is the pump serviced?"
    )
    chat = await start_answer(order=order)
    kinds: list[str] = []
    async for event in AnswerWorker.replay(chat.answer.pk):
        kinds.append(event.kind)
        if event.kind == "delta" and kinds.count("delta") == 3:
            await stop_answer(key=str(chat.answer.key), scope=world.scope)
    assert kinds[-1] == "stopped"
    assert await asyncio.to_thread(provider.gone.wait, 5), "the server did not see the end"
    row = await models.Message.objects.aget(pk=chat.answer.pk)
    assert row.status == "stopped" and row.content.startswith("word word word")
    await settled()


async def test_who_leaves_loses_nothing(world: AgentWorld, provider: OpenAIServer) -> None:
    provider.chat = Script(pieces=("word ",) * 30, pause_s=0.01)
    order = MessageRequest(
        agent=world.agent, scope=world.scope, message="How often is the pump serviced?"
    )
    chat = await start_answer(order=order)
    seen = 0
    async for event in AnswerWorker.replay(chat.answer.pk):
        seen = event.seq
        if event.kind == "delta":
            break
    await settled()
    rest = [event async for event in AnswerWorker.replay(chat.answer.pk, after=seen)]
    assert rest[0].seq == seen + 1 and rest[-1].kind == "done"
    assert rest[-1].data["text"] == "word " * 30


def test_an_agent_speaks_with_gemini_as_well(world: AgentWorld, settings: Any) -> None:
    with GeminiServer() as server:
        server.key = "AIza-k"
        server.chat = GeminiScript(
            pieces=("Every ", f'<cite doc_id="doc_01" quote="{QUOTE}">', "30 days</cite>.")
        )
        settings.RAG = {**settings.RAG, "GEMINI_API_KEY": "AIza-k", "GEMINI_BASE_URL": server.url}
        wiring._chat_model.cache_clear()
        world.agent.model = "gemini:gemini-2.5-flash"
        world.agent.save()
        told = world.ask("How often is the pump serviced?")
        assert told.text == "Every 30 days[1]." and told.row.model == "gemini:gemini-2.5-flash"
        server.faults.append(Fault(status=400, body={"error": {"code": 400, "message": "no"}}))
        failed = world.ask("How often is the pump serviced?")
        assert (failed.last.kind, failed.last.data["code"]) == ("error", "provider")

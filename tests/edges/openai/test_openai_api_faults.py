"""What goes wrong on OpenAI's protocol: bodies, models that fail, clients that leave."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest
from django.db import connection

from agents import models
from rag.core.errors import ConfigurationError, ProviderError, ProviderTimeoutError, RAGError
from rag.services.access.api_keys import create_key
from tests.asgi_server import server_thread
from tests.edges.admin_client import use_words_embedder
from tests.edges.api_client import KeyClient
from tests.factories import DIM, UserFactory
from tests.integration.agent_world import AgentWorld, world

__all__ = ["world"]
ASKED: Any = [{"role": "user", "content": "How often is the pump serviced?"}]
WORDS = " ".join(f"word{number}" for number in range(40))


def slowly(answer: str, delay_s: float) -> dict[str, Any]:
    return {"answers": [{"contains": "pump", "answer": answer, "delay_s": delay_s}], "default": ""}


@pytest.fixture
def client(
    db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> KeyClient:
    use_words_embedder(monkeypatch, settings)
    user = UserFactory()
    models.Agent.objects.create(name="desk", owner=user)
    _, secret = create_key(user=user, name="k")
    return KeyClient(secret)


def refused(client: KeyClient, path: str, body: Any, status: int = 400) -> dict[str, Any]:
    response = client.send("post", f"/v1/{path}", body)
    assert response.status_code == status, response.content
    (error,) = response.json().values()
    assert set(error) == {"message", "type", "param", "code"} and error["message"]
    return error  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("change", "param", "words"),
    [
        ({"messages": []}, "messages", "At least 1"),
        ({"messages": [{"role": "boss", "content": "x"}]}, "messages.0.role", "Allowed"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages", "last message"),
        ({"messages": [{"role": "user", "content": " "}]}, "messages", "last message"),
        ({"messages": [*ASKED, {"role": "tool", "content": "x"}]}, "messages.1", "tools"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages.0.content",
            "image_url",
        ),
        ({"messages": [{"role": "user", "content": "word " * 9000}]}, "messages", "context_tokens"),
        ({"temperature": 3}, "temperature", "2"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop", "Allowed: 4"),
        ({"n": 2}, "n", "“n” cannot"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools", "own tools"),
        ({"citable": {"store": "x"}}, "citable.store", "no such field"),
        ({"max_tokens": 0}, "max_tokens", "1 or more"),
        ({"max_completion_tokens": 65537}, "max_completion_tokens", "65536 or less"),
        ({"stop": ""}, "stop", "each of 1 to 200 characters"),
        ({"stop": ["x" * 201]}, "stop", "each of 1 to 200 characters"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content", "list of parts"),
    ],
)
def test_a_body_that_cannot_be_taken_is_a_400_with_its_param(
    client: KeyClient, change: dict[str, Any], param: str, words: str
) -> None:
    error = refused(client, "chat/completions", {"model": "desk", "messages": ASKED, **change})
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert words in error["message"]
    assert not models.Message.objects.exists()


def test_what_is_no_request_at_all_is_told_alike(client: KeyClient) -> None:
    path = "/v1/chat/completions"
    for response, status in (
        (client.post(path, "{", content_type="application/json"), 400),
        (client.post(path, "x", content_type="text/plain"), 415),
        (client.get(path), 405),
        (client.get("/v1/engines"), 404),
        (KeyClient().get("/v1/models"), 401),
        (KeyClient("ck_wrong").get("/v1/models"), 401),
    ):
        assert response.status_code == status, response.content
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    assert client.get(path)["Allow"] == "POST"
    assert KeyClient().get("/v1/models")["WWW-Authenticate"] == "Bearer"
    chinese = KeyClient("ck_wrong", "zh-hans").get("/v1/models").json()
    assert not chinese["error"]["message"].isascii()


@pytest.mark.parametrize(
    ("change", "param", "words"),
    [
        ({"input": [1, 2, 3]}, "input", "check_embedding_ctx_length"),
        ({"input": [[1, 2], [3]]}, "input", "Tokens"),
        ({"input": []}, "input", "neither"),
        ({"input": {"text": "x"}}, "input", "neither"),
        ({"input": ["x", ""]}, "input", "Text 1"),
        ({"input": ["x"] * 2049}, "input", "2049"),
        ({"input": "word " * 300_001}, "input", "300000"),
        ({"dimensions": 7}, "dimensions", str(DIM)),
        ({"encoding_format": "hex"}, "encoding_format", "Allowed"),
    ],
)
def test_inputs_that_cannot_be_embedded(
    client: KeyClient, change: dict[str, Any], param: str, words: str
) -> None:
    body = {"model": f"words:{DIM}", "input": "x", **change}
    error = refused(client, "embeddings", body)
    assert error["param"] == param and words in error["message"], error


def test_an_embedding_model_that_is_none_is_not_found(client: KeyClient) -> None:
    for model in ("use:x", "desk", "text-embedding-3-small"):
        error = refused(client, "embeddings", {"model": model, "input": "x"}, 404)
        assert (error["code"], error["param"]) == ("model_not_found", "model")


@pytest.fixture
def url(world: AgentWorld) -> Iterator[str]:
    with server_thread() as address:
        yield address


@pytest.fixture
def key(world: AgentWorld) -> str:
    return create_key(user=world.user, name="k")[1]


def test_a_model_that_fails_is_an_error_whole_and_in_a_stream(
    world: AgentWorld, url: str, key: str
) -> None:
    slept = ProviderTimeoutError("It slept for {timeout_s} s.", timeout_s=3)
    for error, status, code in (
        (ProviderError("The model is away."), 502, "upstream_error"),
        (slept, 504, "upstream_timeout"),
        (ConfigurationError("No key is set."), 500, "configuration"),
    ):
        _fails(world, openai.OpenAI(base_url=f"{url}/v1", api_key=key), error, status, code)
    assert models.Message.objects.filter(status="error").count() == 6


def _fails(
    world: AgentWorld, client: openai.OpenAI, error: RAGError, status: int, code: str
) -> None:
    asked = []

    def fail(request: Any) -> str:
        asked.append(request)
        raise error

    world.use(fail)
    with pytest.raises(openai.InternalServerError) as told:
        client.chat.completions.create(model="desk", messages=ASKED)
    assert (told.value.status_code, told.value.code) == (status, code)
    # The layers below have tried again; the client does not do so once more.
    assert len(asked) == 1
    with pytest.raises(openai.APIError) as cut:
        list(client.chat.completions.create(model="desk", messages=ASKED, stream=True))
    assert cut.value.code == code and cut.value.message == str(error)


def stream_of(url: str, key: str) -> Any:
    body = {"model": "desk", "messages": ASKED, "stream": True}
    headers = {"authorization": f"Bearer {key}"}
    return httpx2.stream("POST", f"{url}/v1/chat/completions", json=body, headers=headers)


def ended() -> models.Message:
    """Return the last answer, once it has ended."""
    for _ in range(300):
        message = models.Message.objects.filter(role="assistant").latest("pk")
        if message.status != "running":
            return message
        time.sleep(0.02)
    raise AssertionError("it is still being written")


def test_who_leaves_stops_the_answer_or_lets_it_end(
    world: AgentWorld, url: str, key: str, settings: Any
) -> None:
    world.use(slowly(WORDS, 1.2))
    for alone, leave in itertools.product((True, False), (_leave_stream, _leave_whole)):
        settings.AGENTS = {**settings.AGENTS, "FINISHES_ALONE": alone}
        leave(url, key)
        message = ended()
        assert message.status == ("done" if alone else "stopped"), (alone, leave)
        assert (message.content == WORDS) is alone


def _leave_stream(url: str, key: str) -> None:
    with stream_of(url, key) as answer:
        for line in answer.iter_lines():
            if "word1" in line:
                break


def _leave_whole(url: str, key: str) -> None:
    body = {"model": "desk", "messages": ASKED}
    headers = {"authorization": f"Bearer {key}"}
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=0.5)


def test_a_silent_model_is_bridged_by_comments_and_no_connection_is_held(
    world: AgentWorld, url: str, key: str, settings: Any
) -> None:
    settings.AGENTS = {**settings.AGENTS, "PING_S": 0.05}
    world.use(slowly("one two", 0.6))
    connection.close()
    # Threads that an earlier test has left may hold connections of the old pool.
    connection.close_pool()
    with stream_of(url, key) as answer:
        assert answer.headers["x-accel-buffering"] == "no"
        lines, held = [], []
        for line in filter(None, answer.iter_lines()):
            lines.append(line)
            if line == ": ping":
                stats = connection._connection_pools[connection.alias].get_stats()
                held.append(stats["pool_size"] - stats.get("pool_available", 0))
    assert min(held) == 0
    assert ": ping" in lines and lines[-1] == "data: [DONE]"
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == "one two"

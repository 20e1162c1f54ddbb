"""The fake services themselves: what a plain HTTP client sees of them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.fakes.gemini_server import GeminiServer, camel, error, retry_info
from tests.fakes.gemini_server import Script as GeminiScript
from tests.fakes.loopback import Fault, LoopbackServer, Reply
from tests.fakes.openai_server import OpenAIServer, Script
from tests.fakes.vectors import hashed_vector


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    with httpx2.Client(timeout=5.0, trust_env=False) as client:
        yield client


@pytest.fixture
def plain() -> Iterator[LoopbackServer]:
    with LoopbackServer() as server:
        server.route("POST", r"/echo/(\w+)", lambda call: Reply({"got": call.json}))
        server.route("GET", "/slow", lambda _: Reply(events=[b"a", 0.2, b"b"]))
        server.route("GET", "/endless", lambda _: Reply(events=[b"a", 30.0]))
        yield server


def test_routes_answer_and_calls_are_recorded(plain: LoopbackServer, http: httpx2.Client) -> None:
    answer = http.post(f"{plain.origin}/echo/x?a=1&b=2", json={"k": "值"}, headers={"X-Y": "z"})
    assert answer.json() == {"got": {"k": "值"}}
    call = plain.calls[0]
    assert (call.method, call.path, call.query) == ("POST", "/echo/x", {"a": "1", "b": "2"})
    assert call.headers["x-y"] == "z"
    assert http.get(f"{plain.origin}/nowhere").status_code == 404


def test_faults_befall_the_next_calls_in_order(plain: LoopbackServer, http: httpx2.Client) -> None:
    plain.fail(Fault(status=503, times=2), Fault(status=429, headers={"Retry-After": "7"}))
    answers = [http.post(f"{plain.origin}/echo/x", json=1) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [503, 503, 429, 200]
    assert answers[2].headers["retry-after"] == "7"
    assert plain.n_connections == 1


@pytest.mark.parametrize("cut", ["before", "middle"])
def test_a_cut_breaks_the_connection(plain: LoopbackServer, http: httpx2.Client, cut: str) -> None:
    plain.fail(Fault(cut=cut))
    with pytest.raises(httpx2.TransportError):
        http.post(f"{plain.origin}/echo/x", json=1)


def test_a_delay_holds_the_answer_back(plain: LoopbackServer, http: httpx2.Client) -> None:
    plain.fail(Fault(delay_s=0.1))
    started = time.monotonic()
    assert http.post(f"{plain.origin}/echo/x", json=1).status_code == 200
    assert time.monotonic() - started >= 0.1


def test_events_are_sent_one_by_one(plain: LoopbackServer, http: httpx2.Client) -> None:
    started = time.monotonic()
    with http.stream("GET", f"{plain.origin}/slow") as answer:
        parts = answer.iter_raw()
        assert next(parts) == b"a"
        assert time.monotonic() - started < 0.2
        assert list(parts) == [b"b"]


def test_a_client_that_leaves_is_noticed(plain: LoopbackServer, http: httpx2.Client) -> None:
    with http.stream("GET", f"{plain.origin}/endless") as answer:
        parts = answer.iter_raw()
        assert next(parts) == b"a"
        assert not plain.gone.is_set()
    assert plain.gone.wait(2.0)


def test_closing_does_not_wait_for_sleepers() -> None:
    started = time.monotonic()
    with LoopbackServer() as server:
        server.route("GET", "/", lambda _: Reply(events=[30.0]))
        client = httpx2.Client(trust_env=False)
        with client.stream("GET", server.origin + "/"):
            pass
    assert time.monotonic() - started < 2.0


def test_vectors_are_stable_and_near_for_similar_texts() -> None:
    one = hashed_vector("The warranty lasts two years.", 128)
    assert one == hashed_vector("The warranty lasts two years.", 128)
    near = hashed_vector("The warranty lasts three years.", 128)
    far = hashed_vector("保固期為兩年。", 128)
    assert _dot(one, near) > 0.5 > _dot(one, far)
    assert math.hypot(*hashed_vector("x", 8, length=3.0)) == pytest.approx(3.0)
    assert math.hypot(*hashed_vector("", 8)) == pytest.approx(1.0)


def _dot(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def test_openai_refuses_a_wrong_key_in_its_own_form(http: httpx2.Client) -> None:
    with OpenAIServer() as server:
        server.key = "right"
        answer = http.post(f"{server.url}/embeddings", json={"model": "m", "input": ["a"]})
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "invalid_api_key"


def test_openai_streams_end_with_usage_and_done(http: httpx2.Client) -> None:
    with OpenAIServer() as server:
        server.chat = Script(pieces=("Hi",))
        asked = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
        answer = http.post(f"{server.url}/chat/completions", json=asked)
        assert answer.headers["content-type"] == "text/event-stream"
        events = [line[6:] for line in answer.text.split("\n\n") if line]
        assert events[-1] == "[DONE]"
        assert json.loads(events[-2])["usage"]["completion_tokens"] == 1
        assert json.loads(events[1])["choices"][0]["delta"] == {"content": "Hi"}


def test_an_unknown_mode_is_no_silent_success(http: httpx2.Client) -> None:
    with OpenAIServer() as server:
        server.mode = "no such mode"
        with pytest.raises(httpx2.TransportError):
            http.post(f"{server.url}/embeddings", json={"model": "m", "input": ["a"]})


@pytest.fixture
def gemini() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        yield server


def call(http: httpx2.Client, server: GeminiServer, path: str, body: Any, **headers: str) -> Any:
    given = {"x-goog-api-key": server.key, **headers}
    return http.post(f"{server.url}{path}", json=body, headers=given)


@pytest.mark.parametrize("version", ["v1", "v1beta"])
@pytest.mark.parametrize("key", ["outputDimensionality", "output_dimensionality"])
def test_gemini_reads_both_versions_and_key_cases(
    http: httpx2.Client, gemini: GeminiServer, version: str, key: str
) -> None:
    request = {"content": {"parts": [{"text": "a"}]}, key: 8}
    path = f"/{version}/models/gemini-embedding-001"
    single = call(http, gemini, f"{path}:embedContent", request).json()
    batch = call(http, gemini, f"{path}:batchEmbedContents", {"requests": [request] * 2}).json()
    assert len(single["embedding"]["values"]) == 8
    assert batch["embeddings"] == [single["embedding"]] * 2


def test_gemini_reads_the_newer_place_of_settings(
    http: httpx2.Client, gemini: GeminiServer
) -> None:
    request = {
        "content": {"parts": [{"text": "a"}]},
        "embedContentConfig": {"outputDimensionality": 8},
    }
    answer = call(http, gemini, "/v1/models/m:embedContent", request).json()
    assert len(answer["embedding"]["values"]) == 8


def test_only_full_size_vectors_come_normalised(http: httpx2.Client, gemini: GeminiServer) -> None:
    content = {"content": {"parts": [{"text": "a b c"}]}}
    full = call(http, gemini, "/v1/models/m:embedContent", content).json()
    short = call(
        http, gemini, "/v1/models/m:embedContent", {**content, "outputDimensionality": 768}
    ).json()
    assert math.hypot(*full["embedding"]["values"]) == pytest.approx(1.0)
    assert math.hypot(*short["embedding"]["values"]) == pytest.approx(0.7)


def test_several_parts_are_one_text_with_one_vector(
    http: httpx2.Client, gemini: GeminiServer
) -> None:
    merged = {"requests": [{"content": {"parts": [{"text": "a"}, {"text": "b"}]}}]}
    answer = call(http, gemini, "/v1/models/m:batchEmbedContents", merged).json()
    assert len(answer["embeddings"]) == 1


@pytest.mark.parametrize("n_texts", [0, 101])
def test_the_batch_s_cap_is_kept(http: httpx2.Client, gemini: GeminiServer, n_texts: int) -> None:
    body = {"requests": [{"content": {"parts": [{"text": "a"}]}}] * n_texts}
    answer = call(http, gemini, "/v1/models/m:batchEmbedContents", body)
    assert (answer.status_code, answer.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")


def test_gemini_tells_no_key_from_a_wrong_one(http: httpx2.Client, gemini: GeminiServer) -> None:
    path = "/v1/models/m:countTokens"
    missing = http.post(f"{gemini.url}{path}", json={})
    assert (missing.status_code, missing.json()["error"]["status"]) == (403, "PERMISSION_DENIED")
    wrong = call(http, gemini, path, {}, **{"x-goog-api-key": "wrong"})
    assert wrong.status_code == 400
    assert wrong.json()["error"]["details"][0]["reason"] == "API_KEY_INVALID"


def test_gemini_answers_in_camel_case_and_leaves_zeros_out(
    http: httpx2.Client, gemini: GeminiServer
) -> None:
    body = {"contents": [{"parts": [{"text": "two words"}]}]}
    answer = call(http, gemini, "/v1/models/m:generateContent", body).json()
    assert answer["candidates"][0]["finishReason"] == "STOP"
    assert "thoughtsTokenCount" not in answer["usageMetadata"]
    counted = call(http, gemini, "/v1/models/m:countTokens", body).json()
    assert counted == {"totalTokens": 2}


def test_gemini_streams_server_sent_events_without_done(
    http: httpx2.Client, gemini: GeminiServer
) -> None:
    body = {"contents": [{"parts": [{"text": "?"}]}]}
    path = "/v1beta/models/m:streamGenerateContent"
    answer = call(http, gemini, f"{path}?alt=sse", body)
    events = answer.text.split("\r\n\r\n")
    assert events[-1] == "" and all(event.startswith("data: {") for event in events[:-1])
    assert "finishReason" not in events[0] and "finishReason" in events[-2]
    assert call(http, gemini, path, body).status_code == 400


def test_free_form_maps_keep_their_names() -> None:
    sent = {"function_call": {"args": {"snake_case": 1}}, "custom_metadata": [{"string_value": ""}]}
    assert camel(sent) == {
        "functionCall": {"args": {"snake_case": 1}},
        "customMetadata": [{"stringValue": ""}],
    }


def test_routes_can_be_added(http: httpx2.Client, gemini: GeminiServer) -> None:
    assert call(http, gemini, "/v1/cachedContents", {}).json()["error"]["status"] == "NOT_FOUND"
    gemini.route("POST", "/(?:v1|v1beta)/cachedContents", lambda c: Reply({"name": c.path}))
    assert call(http, gemini, "/v1/cachedContents", {}).json() == {"name": "/v1/cachedContents"}


def test_answers_may_depend_on_the_question(http: httpx2.Client, gemini: GeminiServer) -> None:
    gemini.respond = lambda asked: GeminiScript((asked["contents"][0]["parts"][0]["text"],))
    body = {"contents": [{"parts": [{"text": "echo"}]}]}
    answer = call(http, gemini, "/v1/models/m:generateContent", body).json()
    assert answer["candidates"][0]["content"]["parts"] == [{"text": "echo"}]


def test_errors_have_google_s_form() -> None:
    reply = error(429, "RESOURCE_EXHAUSTED", "slow", [retry_info("17s")])
    assert reply.status == 429
    assert reply.body["error"]["details"][0]["retryDelay"] == "17s"
    assert "details" not in error(404, "NOT_FOUND", "no").body["error"]

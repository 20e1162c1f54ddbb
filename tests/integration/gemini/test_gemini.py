"""Embeddings over the google-genai SDK against a loopback Gemini."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from rag.core.errors import (
    ConfigurationError,
    InvalidInputError,
    ProviderError,
    ProviderTimeoutError,
)
from rag.core.ports import Embedder
from rag.providers.gemini.client import GeminiEndpoint
from rag.providers.gemini.embedder import GeminiEmbedder, GeminiEmbedderOptions
from rag.providers.remote.batches import BatchLimits
from rag.providers.remote.retry import RetryPolicy
from tests.contracts import EmbedderContract
from tests.fakes.gemini_server import GeminiServer, camel, error, retry_info
from tests.fakes.loopback import Fault
from tests.unit.chat_models.test_remote_vectors import waited

KEY = "AIza-secret-0123456789"
FAST = RetryPolicy(max_attempts=4, first_wait_s=0.005, max_wait_s=0.01, deadline_s=5.0)
TEXTS = ["The warranty lasts two years.", "保固期為兩年。", "Reset the device."]
FIRST, SECOND = "gemini-embedding-001", "gemini-embedding-2"


@pytest.fixture
def server() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        server.key = KEY
        yield server


def embedder(server: GeminiServer, model: str = FIRST, *, key: str = KEY, **options: Any) -> Any:
    chosen = GeminiEmbedderOptions(**{"dim": 64, "retry": FAST, "timeout_s": 2.0, **options})
    return GeminiEmbedder(model, GeminiEndpoint(key, server.url), options=chosen)


def asked(server: GeminiServer, call: int = -1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = camel(server.calls[call].json)["requests"]
    return found


class TestContract(EmbedderContract):
    @pytest.fixture(scope="class", params=[FIRST, SECOND])
    @classmethod
    def embedder(cls, request: pytest.FixtureRequest) -> Iterator[Embedder]:
        with GeminiServer() as server:
            chosen = GeminiEmbedderOptions(dim=256, retry=FAST, limits=BatchLimits(max_texts=3))
            endpoint = GeminiEndpoint(server.key, server.url)
            yield GeminiEmbedder(request.param, endpoint, options=chosen)


@pytest.mark.parametrize("model", [FIRST, SECOND])
def test_each_text_gets_a_vector_of_its_own(server: GeminiServer, model: str) -> None:
    found = embedder(server, model).embed_passages(TEXTS)
    assert found.shape == (3, 64) and found.dtype == np.float32
    assert [len(request["content"]["parts"]) for request in asked(server)] == [1, 1, 1]
    assert len({tuple(row) for row in found.tolist()}) == 3


@pytest.mark.parametrize("dim", [64, 768, 3072])
def test_vectors_of_any_size_have_length_one(server: GeminiServer, dim: int) -> None:
    model = embedder(server, dim=dim)
    found = model.embed_passages(TEXTS)
    assert found.shape == (3, dim) and model.dim == dim
    assert np.allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-5)
    assert asked(server)[0]["outputDimensionality"] == dim


def test_the_first_generation_is_told_the_task(server: GeminiServer) -> None:
    model = embedder(server)
    model.embed_passages(["a"])
    model.embed_query("b")
    kinds = [(asked(server, call)[0]["taskType"]) for call in (0, 1)]
    assert kinds == ["RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"]
    assert asked(server, 1)[0]["content"]["parts"] == [{"text": "b"}]
    assert (model.id, model.version) == ("gemini:gemini-embedding-001", "1")


def test_the_second_generation_reads_the_task_before_the_text(server: GeminiServer) -> None:
    model = embedder(server, SECOND)
    model.embed_passages(["a"])
    model.embed_query("b")
    texts = [asked(server, call)[0]["content"]["parts"][0]["text"] for call in (0, 1)]
    assert texts == ["title: none | text: a", "task: search result | query: b"]
    assert all("taskType" not in asked(server, call)[0] for call in (0, 1))
    assert model.version == "2" and model.max_tokens > embedder(server).max_tokens


def test_similar_texts_are_near(server: GeminiServer) -> None:
    model = embedder(server, dim=256)
    near, far = model.embed_passages(["The warranty lasts three years.", "保固期為兩年。"])
    query = model.embed_query("How long does the warranty last?")
    assert query @ near > query @ far


def test_batches_keep_to_the_service_s_cap_and_to_order(server: GeminiServer) -> None:
    texts = [f"text number {number}" for number in range(230)]
    server.fail(Fault(delay_s=0.1))
    found = embedder(server).embed_passages(texts)
    assert sorted(len(asked(server, call)) for call in range(3)) == [30, 100, 100]
    assert np.array_equal(
        found[[0, 99, 100, 229]],
        embedder(server).embed_passages([texts[place] for place in (0, 99, 100, 229)]),
    )


def test_more_than_the_cap_is_refused_by_the_service(server: GeminiServer) -> None:
    limits = BatchLimits(max_texts=101)
    with pytest.raises(ProviderError, check=lambda e: "A batch holds 1 to 100" in e.detail):
        embedder(server, limits=limits).embed_passages(["a"] * 101)
    assert len(server.calls) == 1


def test_many_threads_share_one_embedder(server: GeminiServer) -> None:
    model = embedder(server, limits=BatchLimits(max_texts=2, concurrency=4))
    expected = model.embed_passages(TEXTS)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: model.embed_passages(TEXTS), range(16)))
    assert all(np.array_equal(rows, expected) for rows in found)


def test_one_client_serves_a_process(server: GeminiServer) -> None:
    endpoint = GeminiEndpoint(KEY, server.url)
    assert endpoint.client() is GeminiEndpoint(KEY, server.url).client()
    model = embedder(server)
    for _ in range(5):
        model.embed_query("a")
    assert server.n_connections == 1


def test_a_forked_child_opens_connections_of_its_own(server: GeminiServer) -> None:
    model = embedder(server, limits=BatchLimits(max_texts=1, concurrency=2))
    expected = model.embed_passages(TEXTS)
    child = os.fork()
    if child == 0:
        found = model.embed_passages(TEXTS)
        os._exit(0 if np.array_equal(found, expected) else 1)
    assert waited(child) == 0
    assert np.array_equal(model.embed_passages(TEXTS), expected)


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_the_api_s_version_is_a_setting(server: GeminiServer, version: str) -> None:
    endpoint = GeminiEndpoint(KEY, server.url, version)
    GeminiEmbedder(FIRST, endpoint).embed_query("a")
    assert server.calls[-1].path == f"/{version}/models/{FIRST}:batchEmbedContents"


def test_an_address_may_have_a_path_before_it(server: GeminiServer) -> None:
    with pytest.raises(ProviderError, match=r"\(HTTP 404\)"):
        GeminiEmbedder(FIRST, GeminiEndpoint(KEY, f"{server.url}/proxy")).embed_query("a")
    assert server.calls[-1].path.startswith("/proxy/v1beta/models/")


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("missing", "answered 3 texts with 2 vectors"),
        ("no_embeddings", "answered 3 texts with 0 vectors"),
        ("empty", "no answer of a model. Check"),
        ("wrong_size", "vectors of 2 numbers, but 64 are expected"),
        ("nan", "zero or not finite"),
        ("html", "a web page"),
    ],
)
def test_a_wrong_answer_is_refused_at_once(server: GeminiServer, mode: str, words: str) -> None:
    server.mode = mode
    with pytest.raises(ProviderError) as caught:
        embedder(server).embed_passages(TEXTS)
    assert words in f"{caught.value} {caught.value.detail}"
    assert caught.value.__context__ is None
    assert len(server.calls) == 1


def test_two_500s_are_survived(server: GeminiServer) -> None:
    server.fail(Fault(status=500, body=error(500, "INTERNAL", "oops").body, times=2))
    assert embedder(server).embed_query("a").shape == (64,)
    assert len(server.calls) == 3


def test_a_429_waits_as_long_as_its_retry_info_asks(server: GeminiServer) -> None:
    reply = error(429, "RESOURCE_EXHAUSTED", "slow down", [retry_info("0.15s")])
    server.fail(Fault(status=429, body=reply.body))
    started = time.monotonic()
    embedder(server).embed_query("a")
    assert 0.15 <= time.monotonic() - started < 1.5


def test_a_429_may_ask_by_header(server: GeminiServer) -> None:
    body = error(429, "RESOURCE_EXHAUSTED", "slow down").body
    server.fail(Fault(status=429, body=body, headers={"Retry-After": "0.15"}))
    started = time.monotonic()
    embedder(server).embed_query("a")
    assert 0.15 <= time.monotonic() - started < 1.5


def test_a_wish_beyond_the_deadline_is_not_waited_for(server: GeminiServer) -> None:
    reply = error(429, "RESOURCE_EXHAUSTED", "Daily quota.", [retry_info("40000s")])
    server.fail(Fault(status=429, body=reply.body, times=9))
    with pytest.raises(ProviderError, match=r"quota is used up \(HTTP 429\)\. Try"):
        embedder(server).embed_query("a")
    assert len(server.calls) == 1


def test_503_for_ever_ends_with_the_deadline(server: GeminiServer) -> None:
    server.fail(Fault(status=503, body=error(503, "UNAVAILABLE", "overloaded").body, times=999))
    policy = RetryPolicy(max_attempts=999, first_wait_s=0.02, max_wait_s=0.05, deadline_s=0.4)
    started = time.monotonic()
    with pytest.raises(ProviderError, match=r"failed \(HTTP 503\)\. Try"):
        embedder(server, retry=policy).embed_passages(TEXTS)
    assert time.monotonic() - started < 2.0
    assert len(server.calls) >= 4


@pytest.mark.parametrize("fault", [Fault(delay_s=20.0, times=9), Fault(drip_s=0.05, times=9)])
def test_a_server_that_hangs_or_trickles_times_out(server: GeminiServer, fault: Fault) -> None:
    server.fail(fault)
    policy = RetryPolicy(max_attempts=2, first_wait_s=0.01, deadline_s=5.0)
    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError, match=r"did not answer within 0\.2 s"):
        embedder(server, timeout_s=0.2, retry=policy).embed_passages(TEXTS)
    assert time.monotonic() - started < 3.0
    assert len(server.calls) == 2


@pytest.mark.parametrize("cut", ["before", "middle"])
def test_a_lost_connection_is_tried_again(server: GeminiServer, cut: str) -> None:
    server.fail(Fault(cut=cut, times=2))
    assert embedder(server).embed_passages(TEXTS).shape == (3, 64)
    server.fail(Fault(cut=cut, times=9))
    with pytest.raises(ProviderError, match=r"The connection to Gemini at 127\.0\.0\.1:\d+ failed"):
        embedder(server).embed_passages(TEXTS)


def test_a_wrong_key_is_told_and_never_shown(
    server: GeminiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = "AIza-wrong-9876543210"
    model = embedder(server, key=wrong)
    # The service answers 400 to a wrong key.
    with pytest.raises(ProviderError, match="did not accept the key") as caught:
        model.embed_query("a")
    assert "Check GEMINI_API_KEY." in str(caught.value)
    assert len(server.calls) == 1
    seen = [str(caught.value.as_dict()), repr(caught.value), repr(vars(model)), caplog.text]
    assert not any(wrong in text for text in seen)


def test_a_redirect_does_not_carry_the_key_elsewhere(server: GeminiServer) -> None:
    with GeminiServer() as other:
        server.fail(Fault(status=307, headers={"Location": f"{other.url}/v1beta/models/x"}))
        with pytest.raises(ProviderError, match="Set GEMINI_BASE_URL to the final address"):
            embedder(server).embed_query("a")
        assert other.calls == []


@pytest.mark.parametrize("key", ["", "  "])
def test_no_key_is_a_configuration_error_naming_the_setting(key: str) -> None:
    with pytest.raises(ConfigurationError, match=r"Set GEMINI_API_KEY\."):
        GeminiEndpoint(key)


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ConfigurationError, match="GEMINI_API_VERSION is “v2”"):
        GeminiEndpoint(KEY, api_version="v2")
    with pytest.raises(ConfigurationError, match="GEMINI_BASE_URL is no web address"):
        GeminiEndpoint(KEY, "generativelanguage.googleapis.com")
    with pytest.raises(InvalidInputError, match="size 4096"):
        GeminiEmbedder(FIRST, GeminiEndpoint(KEY), options=GeminiEmbedderOptions(dim=4096))


def test_the_environment_changes_nothing(
    server: GeminiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_API_KEY", "stray")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://stray.example")
    server.key = "fresh-client-key"
    assert embedder(server, key="fresh-client-key").embed_query("a").shape == (64,)
    assert server.calls[-1].headers["x-goog-api-key"] == "fresh-client-key"


def test_empty_texts_are_refused_and_odd_ones_cleaned(server: GeminiServer) -> None:
    model = embedder(server)
    assert model.embed_passages([]).shape == (0, 64)
    with pytest.raises(InvalidInputError):
        model.embed_passages(["a", ""])
    assert server.calls == []
    model.embed_query("a\x00b\ud800")
    assert asked(server)[0]["content"]["parts"][0]["text"] == "a b "

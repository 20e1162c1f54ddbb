"""Embeddings over the openai SDK against a loopback server that misbehaves in every way seen."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
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
from rag.providers.openai_compatible.embedder import EmbedderOptions, OpenAICompatibleEmbedder
from rag.providers.remote.batches import BatchLimits
from rag.providers.remote.retry import RetryPolicy
from tests.contracts import EmbedderContract
from tests.fakes.loopback import Fault
from tests.fakes.openai_server import OpenAIServer
from tests.unit.chat_models.test_remote_vectors import waited

KEY = "sk-secret-0123456789abcdef"
FAST = RetryPolicy(max_attempts=4, first_wait_s=0.005, max_wait_s=0.01, deadline_s=5.0)
TEXTS = ["The warranty lasts two years.", "保固期為兩年。", "Reset the device."]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def embedder(server: OpenAIServer, *, key: str = "", dim: int = 16, **options: Any) -> Any:
    chosen = EmbedderOptions(**{"retry": FAST, "timeout_s": 2.0, **options})
    return OpenAICompatibleEmbedder("bge-m3", server.url, key, dim, options=chosen)


class TestContract(EmbedderContract):
    @pytest.fixture(scope="class")
    @classmethod
    def embedder(cls) -> Iterator[Embedder]:
        with OpenAIServer() as server:
            server.native_dim = 256
            chosen = EmbedderOptions(retry=FAST, limits=BatchLimits(max_texts=3))
            yield OpenAICompatibleEmbedder("bge-m3", server.url, options=chosen)


def test_it_embeds_passages_and_a_query(server: OpenAIServer) -> None:
    model = embedder(server)
    passages = model.embed_passages(TEXTS)
    assert passages.shape == (3, 16) and passages.dtype == np.float32
    assert np.allclose(np.linalg.norm(passages, axis=1), 1.0)
    assert np.array_equal(model.embed_query(TEXTS[1]), passages[1])
    assert model.embed_passages([]).shape == (0, 16)
    assert (model.id, model.version, model.max_tokens) == ("openai_compatible:bge-m3", "1", 5000)
    assert model.tokenizer.count("保固期") == 3


def test_similar_texts_are_near(server: OpenAIServer) -> None:
    model = embedder(server, dim=0, dimensions=256)
    near, far = model.embed_passages(["The warranty lasts three years.", "保固期為兩年。"])
    query = model.embed_query("How long does the warranty last?")
    assert query @ near > query @ far


def test_the_size_is_learned_when_nobody_says_it(server: OpenAIServer) -> None:
    assert embedder(server, dim=0).dim == 16
    assert "dimensions" not in server.calls[0].json


def test_a_size_is_asked_for_only_when_set(server: OpenAIServer) -> None:
    server.strict_dim = True
    assert embedder(server, dim=16).embed_query("a").shape == (16,)
    with pytest.raises(ProviderError, check=lambda e: "does not support matryoshka" in e.detail):
        embedder(server, dim=0, dimensions=8).embed_query("a")
    server.strict_dim = False
    assert embedder(server, dim=8, dimensions=8).embed_query("a").shape == (8,)
    assert server.calls[-1].json["dimensions"] == 8


def test_two_sizes_contradict_each_other(server: OpenAIServer) -> None:
    with pytest.raises(ConfigurationError, match="RAG_EMBEDDING_DIM"):
        embedder(server, dim=16, dimensions=8)


def test_a_server_that_ignores_the_asked_size_is_found_out(server: OpenAIServer) -> None:
    server.mode = "fixed_size"
    with pytest.raises(ProviderError, match="vectors of 16 numbers, but 8 are expected"):
        embedder(server, dim=8, dimensions=8).embed_query("a")


def test_prefixes_and_further_fields_go_with_each_side(server: OpenAIServer) -> None:
    options: dict[str, Any] = {
        "query_prefix": "query: ",
        "passage_prefix": "passage: ",
        "query_body": {"input_type": "query"},
        "passage_body": {"input_type": "document"},
    }
    model = embedder(server, **options)
    model.embed_query("a")
    model.embed_passages(["b", "c"])
    asked = [(call.json["input"], call.json["input_type"]) for call in server.calls]
    assert asked == [(["query: a"], "query"), (["passage: b", "passage: c"], "document")]
    assert model.max_tokens == 5000 - model.tokenizer.count("passage: ")
    assert model.version != embedder(server).version
    assert model.version != embedder(server, **{**options, "query_prefix": "q: "}).version
    assert model.version == embedder(server, **options).version


@pytest.mark.parametrize("mode", ["shuffled", "base64", "no_index"])
def test_harmless_oddities_change_no_vector(server: OpenAIServer, mode: str) -> None:
    expected = embedder(server).embed_passages(TEXTS)
    server.mode = mode
    found = embedder(server).embed_passages(TEXTS)
    # Base64 carries float32, JSON all digits of the server's numbers.
    assert np.allclose(found, expected, atol=1e-6)


def test_base64_may_be_asked_for(server: OpenAIServer) -> None:
    expected = embedder(server).embed_passages(TEXTS)
    found = embedder(server, encoding="base64").embed_passages(TEXTS)
    assert np.allclose(found, expected, atol=1e-6)
    asked = [call.json["encoding_format"] for call in server.calls]
    assert asked == ["float", "base64"]


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("missing", "answered 3 texts with 2 vectors"),
        ("extra", "answered 3 texts with 4 vectors"),
        ("same_index", "index is missing or given twice"),
        ("nan", "zero or not finite"),
        ("null", "zero or not finite"),
        ("zero", "zero or not finite"),
        ("html", "no answer of a model"),
        ("text", "upstream is warming up"),
        ("not_json", "no answer of a model"),
        ("no_data", "no answer of a model"),
        ("wrong_kind", "no answer of a model"),
        ("redirect", "sends callers to another address (HTTP 307)"),
    ],
)
def test_a_wrong_answer_is_refused_at_once(server: OpenAIServer, mode: str, words: str) -> None:
    server.mode = mode
    with pytest.raises(ProviderError) as caught:
        embedder(server).embed_passages(TEXTS)
    assert words in f"{caught.value} {caught.value.detail}"
    assert len(server.calls) == 1


def test_a_wrong_size_names_the_setting(server: OpenAIServer) -> None:
    with pytest.raises(ProviderError, match="Set RAG_EMBEDDING_DIM to 16"):
        embedder(server, dim=1024).embed_passages(TEXTS)


def test_texts_go_in_batches_and_come_back_in_order(server: OpenAIServer) -> None:
    texts = [f"text number {number}" for number in range(23)]
    expected = embedder(server).embed_passages(texts)
    assert len(server.calls) == 1
    limits = BatchLimits(max_texts=5, concurrency=3)
    server.fail(*[Fault(delay_s=0.02 * number) for number in (4, 0, 3, 1, 2)])
    found = embedder(server, limits=limits).embed_passages(texts)
    assert np.array_equal(found, expected)
    assert sorted(len(call.json["input"]) for call in server.calls[1:]) == [3, 5, 5, 5, 5]
    assert server.n_active_most <= 3


def test_many_threads_share_one_embedder(server: OpenAIServer) -> None:
    model = embedder(server, limits=BatchLimits(max_texts=2, concurrency=4))
    expected = model.embed_passages(TEXTS)
    with ThreadPoolExecutor(8) as pool:
        queries = list(pool.map(model.embed_query, TEXTS * 8))
        passages = list(pool.map(lambda _: model.embed_passages(TEXTS), range(8)))
    assert np.array_equal(np.stack(queries), np.tile(expected, (8, 1)))
    assert all(np.array_equal(found, expected) for found in passages)


def test_connections_are_kept_between_calls(server: OpenAIServer) -> None:
    model = embedder(server)
    for _ in range(10):
        model.embed_query("a")
    assert server.n_connections == 1


def test_a_forked_child_opens_connections_of_its_own(server: OpenAIServer) -> None:
    model = embedder(server, limits=BatchLimits(max_texts=1, concurrency=2))
    expected = model.embed_passages(TEXTS)
    before = server.n_connections
    child = os.fork()
    if child == 0:
        found = model.embed_passages(TEXTS)
        os._exit(0 if np.array_equal(found, expected) else 1)
    assert waited(child) == 0
    assert server.n_connections > before
    assert np.array_equal(model.embed_passages(TEXTS), expected)


def test_two_500s_are_survived(server: OpenAIServer) -> None:
    server.fail(Fault(status=500, body={"error": {"message": "oops"}}, times=2))
    assert embedder(server).embed_query("a").shape == (16,)
    assert len(server.calls) == 3


@pytest.mark.parametrize("wish", [{"retry-after": "0.12"}, {"retry-after-ms": "120"}])
def test_a_429_waits_as_long_as_it_asks(server: OpenAIServer, wish: dict[str, str]) -> None:
    server.fail(Fault(status=429, headers=wish))
    started = time.monotonic()
    embedder(server).embed_query("a")
    assert 0.12 <= time.monotonic() - started < 1.0


def test_a_429_may_name_a_date_and_one_beyond_the_deadline_is_not_waited_for(
    server: OpenAIServer,
) -> None:
    date = formatdate(time.time() + 3600, usegmt=True)
    server.fail(Fault(status=429, headers={"Retry-After": date}))
    started = time.monotonic()
    with pytest.raises(ProviderError, match=r"busy, or the quota is used up \(HTTP 429\)"):
        embedder(server).embed_query("a")
    assert time.monotonic() - started < 1.0
    assert len(server.calls) == 1


def test_an_empty_account_is_not_tried_again(server: OpenAIServer) -> None:
    body = {"error": {"message": "You exceeded your quota.", "code": "insufficient_quota"}}
    server.fail(Fault(status=429, body=body, times=9))
    with pytest.raises(ProviderError, check=lambda e: "You exceeded your quota" in e.detail):
        embedder(server).embed_query("a")
    assert len(server.calls) == 1


def test_503_for_ever_ends_with_the_deadline(server: OpenAIServer) -> None:
    server.fail(Fault(status=503, body=b"<html>503</html>", times=999))
    policy = RetryPolicy(max_attempts=999, first_wait_s=0.02, max_wait_s=0.05, deadline_s=0.4)
    started = time.monotonic()
    with pytest.raises(ProviderError, match=r"failed \(HTTP 503\)\. Try"):
        embedder(server, retry=policy).embed_passages(TEXTS)
    assert time.monotonic() - started < 1.5
    assert 5 <= len(server.calls) < 40


@pytest.mark.parametrize("fault", [Fault(delay_s=20.0, times=9), Fault(drip_s=0.05, times=9)])
def test_a_server_that_hangs_or_trickles_times_out(server: OpenAIServer, fault: Fault) -> None:
    server.fail(fault)
    policy = RetryPolicy(max_attempts=2, first_wait_s=0.01, deadline_s=5.0)
    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError, match=r"did not answer within 0\.2 s"):
        embedder(server, timeout_s=0.2, retry=policy).embed_passages(TEXTS)
    assert time.monotonic() - started < 3.0
    assert len(server.calls) == 2


def test_a_question_waits_one_timeout_in_all(server: OpenAIServer) -> None:
    server.fail(Fault(delay_s=20.0, times=9))
    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError):
        embedder(server, timeout_s=0.2).embed_query("a")
    assert time.monotonic() - started < 2.0


@pytest.mark.parametrize("cut", ["before", "middle"])
def test_a_lost_connection_is_tried_again(server: OpenAIServer, cut: str) -> None:
    server.fail(Fault(cut=cut, times=2))
    assert embedder(server).embed_passages(TEXTS).shape == (3, 16)
    server.fail(Fault(cut=cut, times=9))
    with pytest.raises(ProviderError, match=r"The connection to 127\.0\.0\.1:\d+ failed"):
        embedder(server).embed_passages(TEXTS)


def test_nobody_at_the_address_says_so() -> None:
    with OpenAIServer() as server:
        model = embedder(server)
    with pytest.raises(ProviderError, match=r"Check the network and RAG_OPENAI_BASE_URL"):
        model.embed_query("a")


def test_a_wrong_key_is_told_and_never_shown(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.key = "another"
    model = embedder(server, key=KEY)
    with pytest.raises(ProviderError, match=r"did not accept the key \(HTTP 401\)") as caught:
        model.embed_query("a")
    error = caught.value
    assert len(server.calls) == 1
    # The server quoted the key in its answer.
    assert error.detail == "Incorrect API key provided: ***."
    assert "Check RAG_OPENAI_API_KEY." in str(error)
    assert error.__cause__ is None and error.__context__ is None
    seen = [str(error.as_dict()), repr(error), repr(model), repr(vars(model)), caplog.text]
    assert not any(KEY in text for text in seen)


def test_a_right_key_is_sent_and_none_is_not(server: OpenAIServer) -> None:
    server.key = KEY
    embedder(server, key=f" {KEY}\n").embed_query("a")
    assert server.calls[-1].headers["authorization"] == f"Bearer {KEY}"
    server.key = ""
    embedder(server).embed_query("a")
    assert "authorization" not in server.calls[-1].headers


def test_the_environment_changes_nothing(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "http://stray.example")
    embedder(server, key="sk-fresh-client").embed_query("a")
    headers = server.calls[-1].headers
    assert headers["authorization"] == "Bearer sk-fresh-client"
    assert not {"openai-organization", "openai-project"} & set(headers)


def test_a_proxy_of_the_environment_is_not_asked_for_the_own_machine(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert embedder(server, key="sk-behind-a-proxy").embed_query("a").shape == (16,)


def test_a_proxy_of_the_environment_is_asked_for_other_machines(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.origin)
    model = OpenAICompatibleEmbedder("m", "http://llm.example/v1", dim=16)
    assert model.embed_query("a").shape == (16,)
    assert server.calls[-1].headers["host"] == "llm.example"


def test_importing_the_providers_loads_no_sdk() -> None:
    code = (
        "import sys\n"
        "import rag.providers.openai_compatible.embedder, rag.providers.openai_compatible.chat\n"
        "import rag.providers.gemini.embedder, rag.providers.gemini.chat\n"
        "print([name for name in ('openai', 'google.genai', 'httpx2') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr


def test_neither_key_nor_address_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError) as caught:
        OpenAICompatibleEmbedder("text-embedding-3-small", dim=1536)
    assert "RAG_OPENAI_API_KEY" in str(caught.value)
    assert "RAG_OPENAI_BASE_URL" in str(caught.value)


def test_a_key_alone_means_openai_itself() -> None:
    model = OpenAICompatibleEmbedder("text-embedding-3-small", api_key=KEY, dim=1536)
    assert model.dim == 1536
    assert "api.openai.com" in repr(vars(model))


@pytest.mark.parametrize("url", ["localhost:8000/v1", "http://x/v1/embeddings", "ftp://x/v1"])
def test_a_wrong_address_names_the_setting(url: str) -> None:
    with pytest.raises(ConfigurationError, match="RAG_OPENAI_BASE_URL"):
        OpenAICompatibleEmbedder("m", url, dim=3)


def test_texts_that_json_cannot_bear_are_cleaned(server: OpenAIServer) -> None:
    embedder(server).embed_passages(["a\x00b", "c\ud800d"])
    assert server.calls[-1].json["input"] == ["a b", "c d"]


def test_an_empty_text_is_refused_before_anything_is_sent(server: OpenAIServer) -> None:
    with pytest.raises(InvalidInputError):
        embedder(server).embed_passages(["a", " "])
    with pytest.raises(InvalidInputError):
        embedder(server).embed_query("")
    assert server.calls == []

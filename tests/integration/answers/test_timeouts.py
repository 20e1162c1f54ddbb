"""RAG_TIMEOUT_S bounds every call of a model: answers, rankings and vectors, by a slow server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import openai
import pytest
from asgiref.sync import async_to_sync

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.errors import ProviderTimeoutError
from rag.core.types import ChatReply
from rag.services.answers import ask, stream_ask
from rag.services.search import retrieve
from rag.services.wiring import registry as wiring
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, StoreFactory, publish
from tests.fakes.loopback import Fault, LoopbackServer, Reply
from tests.fakes.openai_server import OpenAIServer, Script

# Loading the SDK is none of a call's time.
assert openai.OpenAI
pytestmark = pytest.mark.django_db
OPERATOR = Scope.operator()
QUESTION = "When does the pump stop?"
TEXTS = ("The pump stops at fault E21.", "The lamp stops at night.", "A valve leaks.")
# What the OpenAI SDK tells a server of how long it waits.
TOLD = "x-stainless-read-timeout"


class SlowServer(OpenAIServer):
    """Chat, embeddings and rankings, each ``delay_s`` late."""

    delay_s = 0.0
    way = ""

    def __init__(self) -> None:
        super().__init__()
        self.chat = Script(pieces=("It stops at E21.",))
        rows = [{"index": index, "relevance_score": 0.9 - index / 10} for index in range(3)]
        self.route("POST", "/v1/rerank", lambda call: Reply({"results": rows}))

    def take_fault(self, call: Any) -> Fault | None:
        return Fault(delay_s=self.delay_s, drip_s=0.2 if self.way == "a byte at a time" else 0.0)

    def answer(self, call: Any) -> Reply:
        return Reply(events=(30.0,)) if self.way == "headers only" else super().answer(call)


@contextmanager
def dripping_server() -> Iterator[str]:
    """Serve an answer whose very head comes a byte each tenth of a second."""
    closing = threading.Event()

    def drip(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            for byte in b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + b" " * 500:
                connection.sendall(bytes([byte]))
                if closing.wait(0.1):
                    return

    def serve(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=drip, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        closing.set()


@pytest.fixture
def server() -> Iterator[SlowServer]:
    with SlowServer() as server:
        yield server


@pytest.fixture
def store(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> models.Store:
    use_words_embedder(monkeypatch, settings)
    origin = f"{server.origin}/v1"
    own = {"OPENAI_BASE_URL": origin, "OPENAI_API_KEY": "k", "RERANK_URL": origin}
    settings.RAG = {**settings.RAG, **own}
    store = StoreFactory(is_public=True)
    for text in TEXTS:
        publish(FileFactory(store=store), text)
    return store


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    with pytest.raises(ProviderTimeoutError) as raised:
        work()
    assert "RAG_TIMEOUT_S" in str(raised.value)
    return time.perf_counter() - started


async def streamed(asked: dict[str, Any]) -> str:
    pieces = stream_ask(**asked)
    return "".join([one.text async for one in pieces if isinstance(one, ChatReply)])


def calls(store: models.Store) -> dict[str, Callable[[], Any]]:
    asked = {"question": QUESTION, "scope": OPERATOR, "stores": [store]}
    return {
        "ask": lambda: ask(**asked, model="openai_compatible:m"),
        "streamed ask": lambda: async_to_sync(streamed)({**asked, "model": "openai_compatible:m"}),
        "rank": lambda: wiring.reranker("endpoint").rerank(
            QUESTION, TEXTS, timeout_s=conf().timeout_s
        ),
        "embed": lambda: wiring.embedder("openai_compatible:m").embed_query(QUESTION),
    }


WAYS = ("hangs", "headers only", "a byte at a time")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["ask", "streamed ask", "embed", "rank"])
def test_a_call_ends_after_the_configured_time(
    store: models.Store, server: SlowServer, settings: Any, name: str, way: str
) -> None:
    settings.RAG = {**settings.RAG, "TIMEOUT_S": 0.6}
    server.delay_s, server.way = (5.0 if way == "hangs" else 0.0), way
    if (name, way) == ("streamed ask", "a byte at a time"):
        server.way, server.chat = "", Script(pieces=("word ",) * 100, pause_s=0.1)
    assert 0.5 < seconds(calls(store)[name]) < 4.0


def test_even_a_head_that_comes_a_byte_at_a_time_ends(store: models.Store, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "TIMEOUT_S": 0.6}
    with dripping_server() as url:
        settings.RAG = {**settings.RAG, "OPENAI_BASE_URL": url, "RERANK_URL": url}
        for name in ("ask", "streamed ask", "embed", "rank"):
            assert 0.5 < seconds(calls(store)[name]) < 4.0, name


@pytest.mark.parametrize(("timeout_s", "told"), [(3.0, "3"), (120.0, "120")])
@pytest.mark.parametrize("name", ["ask", "embed"])
def test_a_call_may_take_the_configured_time(
    store: models.Store, server: SlowServer, settings: Any, name: str, timeout_s: float, told: str
) -> None:
    settings.RAG = {**settings.RAG, "TIMEOUT_S": timeout_s}
    calls(store)[name]()
    assert float(server.calls[-1].headers[TOLD]) == pytest.approx(float(told), abs=0.5)


def test_a_late_ranking_is_waited_for_as_long_as_configured(
    store: models.Store, server: SlowServer, settings: Any
) -> None:
    asked = {"query": QUESTION, "scope": OPERATOR, "stores": [store], "purpose": "evaluation"}
    wanted = store.retrieval_settings.but(rerank="endpoint", top_k=3)
    server.delay_s = 0.8
    settings.RAG = {**settings.RAG, "TIMEOUT_S": 0.3}
    assert retrieve(**asked, settings=wanted).rerank == "failed"
    settings.RAG = {**settings.RAG, "TIMEOUT_S": 3.0}
    assert retrieve(**asked, settings=wanted).rerank == "endpoint"


def test_a_model_that_ranks_may_take_the_configured_time(
    store: models.Store, server: SlowServer, settings: Any
) -> None:
    settings.RAG = {**settings.RAG, "TIMEOUT_S": 120.0, "CHAT_MODEL": "openai_compatible:m"}
    server.chat = Script(pieces=('{"ranking": []}',))
    wanted = store.retrieval_settings.but(rerank="llm", top_k=3)
    retrieve(query=QUESTION, scope=OPERATOR, stores=[store], settings=wanted, purpose="evaluation")
    assert float(server.calls[-1].headers[TOLD]) == pytest.approx(120.0, abs=0.5)

"""RAG_TIMEOUT_S bounds every call of a model: answers, rankings and vectors, by a slow server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from rag import models
from rag.core.access import Scope
from rag.core.errors import ProviderTimeoutError
from rag.services.answers import ask
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

    def __init__(self) -> None:
        super().__init__()
        self.chat = Script(pieces=("It stops at E21.",))
        rows = [{"index": index, "relevance_score": 0.9 - index / 10} for index in range(3)]
        self.route("POST", "/v1/rerank", lambda call: Reply({"results": rows}))

    def take_fault(self, call: Any) -> Fault | None:
        return Fault(delay_s=self.delay_s)


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
    with pytest.raises(ProviderTimeoutError):
        work()
    return time.perf_counter() - started


def calls(store: models.Store) -> dict[str, Callable[[], Any]]:
    asked = {"question": QUESTION, "scope": OPERATOR, "stores": [store]}
    return {
        "ask": lambda: ask(**asked, model="openai_compatible:m"),
        "embed": lambda: wiring.embedder("openai_compatible:m").embed_query(QUESTION),
    }


@pytest.mark.parametrize("name", ["ask", "embed"])
def test_a_call_ends_after_the_configured_time(
    store: models.Store, server: SlowServer, settings: Any, name: str
) -> None:
    settings.RAG = {**settings.RAG, "TIMEOUT_S": 0.6}
    server.delay_s = 3.0
    assert 0.5 < seconds(calls(store)[name]) < 2.0


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

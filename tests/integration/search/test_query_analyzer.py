"""A model analyzes queries behind a deadline, and the rules stand in for it whatever happens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import google.genai  # noqa: F401  # its import counts towards the time of a first analysis
import openai  # noqa: F401  # as above
import pytest

from rag.core.analysis import CONTENT_TYPES, Entity
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply
from rag.services.search import query_analysis as query_analyzer
from rag.services.search.query_analysis import QueryAnalyzer, merged_vocabulary
from tests.factories import StoreFactory
from tests.fakes.gemini_server import GeminiServer
from tests.fakes.loopback import Fault
from tests.fakes.model_plugins import use_provider
from tests.fakes.openai_server import OpenAIServer, Script

MODEL = "openai_compatible:judge"
QUERY = "蓝鲸水泵多重？"
ANSWER = {
    "intent": "compare",
    "complexity": "complex",
    "entities": [{"type": "part", "value": "水泵"}],
    "keywords": ["多重"],
}


pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _fresh(fresh_wiring: None) -> Iterator[None]:
    query_analyzer._paused_until.clear()
    yield
    query_analyzer._paused_until.clear()


@pytest.fixture
def server(settings: Any) -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        server.chat = Script(pieces=(json.dumps(ANSWER, ensure_ascii=False),))
        settings.RAG = {**settings.RAG, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "k"}
        yield server


def asked(server: OpenAIServer) -> list[Any]:
    return [call.json for call in server.calls]


def test_without_a_model_the_rules_answer() -> None:
    found = QueryAnalyzer().analyze(QUERY, vocabulary={"product": ["蓝鲸水泵"]})
    assert (found.analyzer, found.intent) == ("rules", "lookup")
    assert found.entities == (Entity("product", "蓝鲸水泵"),)
    assert QueryAnalyzer().analyze("").analyzer == "rules"


def test_a_configured_model_answers_with_a_schema(server: OpenAIServer, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "ANALYSIS_MODEL": MODEL}
    found = QueryAnalyzer().analyze(QUERY, vocabulary={"product": ["蓝鲸水泵"]})
    assert (found.analyzer, found.intent, found.complexity) == (MODEL, "compare", "complex")
    assert found.entities == (Entity("product", "蓝鲸水泵"), Entity("part", "水泵"))
    assert found.keywords == ("多重",)
    (body,) = asked(server)
    assert body["response_format"]["json_schema"]["schema"]["required"][0] == "intent"
    assert body["temperature"] == 0
    assert json.loads(body["messages"][1]["content"]) == {
        "query": QUERY,
        "entity_types": ["product"],
    }


def test_gemini_is_told_the_schema_its_own_way(settings: Any) -> None:
    with GeminiServer() as server:
        settings.RAG = {
            **settings.RAG,
            "GEMINI_BASE_URL": server.origin,
            "GEMINI_API_KEY": "test-key",
        }
        for _ in range(3):
            QueryAnalyzer("gemini:gemini-3-flash").analyze(QUERY)
            # The SDK sets itself up with its first call, which may take the whole two seconds.
            if server.calls:
                break
        config = server.calls[0].json["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    assert "intent" in json.dumps(config)


@pytest.mark.parametrize("text", ["I think it is a comparison.", "{}", '{"intent": "buy"}', "[1]"])
def test_an_answer_that_is_none_leaves_the_rules_and_the_model(
    text: str, server: OpenAIServer
) -> None:
    server.chat = Script(pieces=(text,))
    assert QueryAnalyzer(MODEL).analyze(QUERY).analyzer == "rules"
    server.chat = Script(pieces=(json.dumps(ANSWER),))
    assert QueryAnalyzer(MODEL).analyze(QUERY).analyzer == MODEL


def test_fenced_json_with_thoughts_before_it_is_read(server: OpenAIServer) -> None:
    fenced = f"<think>hm {{</think>```json\n{json.dumps(ANSWER)}\n```"
    server.chat = Script(pieces=(fenced,))
    assert QueryAnalyzer(MODEL).analyze(QUERY).intent == "compare"


def test_a_server_without_schemas_is_asked_again_and_remembered(server: OpenAIServer) -> None:
    server.faults = [Fault(status=400, body={"error": {"message": "response_format is unknown"}})]
    for _ in range(2):
        assert QueryAnalyzer(MODEL).analyze(QUERY).analyzer == MODEL
    assert [("response_format" in body) for body in asked(server)] == [True, False, False]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=401, times=9),
        Fault(status=500, times=99),
        Fault(cut="before", times=99),
        Fault(cut="middle", times=99),
        Fault(status=200, body=b"<html>login</html>", times=9),
    ],
    ids=["key", "server", "cut", "middle", "html"],
)
def test_a_model_that_fails_is_replaced_and_left_alone(fault: Fault, server: OpenAIServer) -> None:
    server.faults = [fault]
    started = time.monotonic()
    found = QueryAnalyzer(MODEL, deadline_s=0.5).analyze(QUERY)
    assert (found.analyzer, found.intent) == ("rules", "lookup")
    assert time.monotonic() - started < 1.5
    n_calls = len(server.calls)
    started = time.monotonic()
    for _ in range(20):
        assert QueryAnalyzer(MODEL).analyze(QUERY).analyzer == "rules"
    assert len(server.calls) == n_calls, "not asked while it rests"
    assert time.monotonic() - started < 0.5


def test_it_is_asked_again_after_the_pause(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_analyzer, "PAUSE_S", 0.05)
    server.faults = [Fault(status=401)]
    assert QueryAnalyzer(MODEL).analyze(QUERY).analyzer == "rules"
    time.sleep(0.06)
    assert QueryAnalyzer(MODEL).analyze(QUERY).analyzer == MODEL


@pytest.mark.parametrize("fault", [Fault(delay_s=3), Fault(drip_s=0.2)], ids=["late", "dripping"])
def test_nobody_waits_past_the_deadline(fault: Fault, server: OpenAIServer) -> None:
    # Dripping: each byte comes in time, the whole never does.
    server.faults = [fault]
    started = time.monotonic()
    assert QueryAnalyzer(MODEL, deadline_s=0.4).analyze(QUERY).analyzer == "rules"
    assert time.monotonic() - started < 0.8


@pytest.mark.parametrize("model", ["nonsense", "nobody:x", "openai_compatible:", "extractive:x"])
def test_a_wrong_setting_is_no_error_of_the_search(
    model: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert QueryAnalyzer(model).analyze(QUERY).analyzer == "rules"
    assert model in caplog.text


class Broken:
    """A chat model whose maker has erred."""

    id = "broken:x"

    def generate(self, request: ChatRequest) -> ChatReply:
        raise ZeroDivisionError


def make_broken(model: str) -> Broken:
    return Broken()


def test_even_a_bug_of_a_provider_does_not_reach_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_provider(monkeypatch, "chat", "broken", make_broken)
    assert QueryAnalyzer("broken:x").analyze(QUERY).analyzer == "rules"


@pytest.mark.django_db
def test_the_vocabularies_of_stores_are_one() -> None:
    first = StoreFactory(vocabulary={"product": ["A", "B"], f"{CONTENT_TYPES}product": ["manual"]})
    second = StoreFactory(vocabulary={"product": ["B", "C", 4], "place": "no list", "x": None})
    odd = StoreFactory(vocabulary=["no", "mapping"])
    assert merged_vocabulary(stores=[first, second, odd]) == {"product": ["A", "B", "C"]}

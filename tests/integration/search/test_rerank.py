"""Ranking again: by an endpoint on loopback, by a chat model, mixed; what fails keeps the order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rag.core.errors import (
    ConfigurationError,
    InvalidInputError,
    ProviderError,
    ProviderTimeoutError,
    UnknownNameError,
)
from rag.core.hits import Hit, Leg
from rag.core.types import RetrievalSettings
from rag.providers.rerank_http import HttpReranker
from rag.services.search import postprocessing as rerank_module
from rag.services.search.confidence import filter_by_threshold, lexical_overlap
from rag.services.search.postprocessing import rerank_hits
from rag.services.search.retrieval import retrieve
from rag.stages.ranking.rerank_prompt import MAX_CHARACTERS
from tests.factories import FileFactory, publish
from tests.fakes.loopback import Call, Fault, LoopbackServer, Reply
from tests.integration.agent_world import AgentWorld, world

__all__ = ["world"]


class RerankServer(LoopbackServer):
    """Scores each text by ``scores``, in another order than asked, as services do."""

    def __init__(self) -> None:
        super().__init__()
        self.scores: list[float] = []
        self.body: Any = None
        self.route("POST", "/v1/rerank", self._rank)

    def _rank(self, call: Call) -> Reply:
        if self.body is not None:
            return Reply(self.body)
        n = len(call.json["documents"])
        scores = self.scores or [index / (n + 1) for index in range(n)]
        rows = [{"index": index, "relevance_score": scores[index]} for index in reversed(range(n))]
        return Reply({"id": "r", "results": rows, "model": call.json.get("model")})


@pytest.fixture
def endpoint() -> Iterator[RerankServer]:
    with RerankServer() as server:
        yield server


def test_an_endpoint_scores_texts_in_their_order(endpoint: RerankServer) -> None:
    reranker = HttpReranker(f"{endpoint.origin}/v1", "k-1", "m")
    assert reranker.rerank("q", ["a", "b", "c"], timeout_s=5) == [0.0, 0.25, 0.5]
    call = endpoint.calls[0]
    assert call.headers["authorization"] == "Bearer k-1"
    assert call.json == {
        "query": "q",
        "documents": ["a", "b", "c"],
        "top_n": 3,
        "return_documents": False,
        "model": "m",
    }
    assert reranker.rerank("q", [], timeout_s=5) == []
    endpoint.scores = [8.0, -3.0]
    high, low = HttpReranker(f"{endpoint.origin}/v1/rerank").rerank("q", ["a", "b"], timeout_s=5)
    assert 0 < low < 0.1 and 0.9 < high < 1, "bare logits come between 0 and 1"
    assert "authorization" not in endpoint.calls[-1].headers


@pytest.mark.parametrize(
    "body",
    [
        b"<html>log in</html>",
        {"results": []},
        {"results": [{"index": 0, "relevance_score": 1}]},
        [1, 2],
        {"results": [{"index": 0, "relevance_score": 1}, {"index": 0, "relevance_score": 1}]},
        {"results": [{"index": 0, "relevance_score": 1}, {"index": 2, "relevance_score": 1}]},
        {"results": [{"index": 0, "relevance_score": "x"}, {"index": 1, "relevance_score": 1}]},
        {"results": [{"index": True, "relevance_score": 1}, {"index": 1, "relevance_score": 1}]},
    ],
)
def test_what_is_no_score_for_each_is_an_error(endpoint: RerankServer, body: Any) -> None:
    endpoint.body = body
    with pytest.raises(ProviderError):
        HttpReranker(f"{endpoint.origin}/v1").rerank("q", ["a", "b"], timeout_s=5)


def test_an_endpoint_that_fails_says_how(endpoint: RerankServer) -> None:
    reranker = HttpReranker(f"{endpoint.origin}/v1", "k-1")
    endpoint.faults.append(Fault(status=401, body={"error": "bad key k-1"}))
    with pytest.raises(ProviderError, match="RAG_RERANK_KEY") as raised:
        reranker.rerank("q", ["a"], timeout_s=5)
    assert "k-1" not in str(raised.value)
    endpoint.faults.append(Fault(status=503))
    assert reranker.rerank("q", ["a"], timeout_s=5) == [0.0], "a busy service is asked again"
    endpoint.faults.append(Fault(delay_s=3.0, times=2))
    with pytest.raises(ProviderTimeoutError):
        reranker.rerank("q", ["a"], timeout_s=0.3)
    with pytest.raises(InvalidInputError, match="RAG_RERANK_URL"):
        HttpReranker("")
    with pytest.raises(ConfigurationError, match="RAG_RERANK_URL"):
        HttpReranker("ftp://x")


def hits(*vectors: float) -> list[Hit]:
    return [
        Hit(text=f"text {number}", rank=number, score=1 / number, vector=Leg(number, vector))
        for number, vector in enumerate(vectors, start=1)
    ]


def order(found: Any) -> list[str]:
    return [hit.text for hit in found]


@pytest.mark.django_db
def test_a_model_an_endpoint_or_both_decide(
    settings: Any, monkeypatch: pytest.MonkeyPatch, endpoint: RerankServer
) -> None:
    from rag.services.wiring import registry as wiring
    from tests.integration.agent_world import Heard

    ranking = {"ranking": [{"id": 1, "score": 1}, {"id": 2, "score": 9}, {"id": 3, "score": 5}]}
    chat = Heard(lambda request: json.dumps(ranking))
    monkeypatch.setattr(wiring, "chat_model", lambda name="": chat)
    found = rerank_hits(query="q", hits=hits(0.9, 0.5, 0.1), method="llm")
    assert order(found) == ["text 2", "text 3", "text 1"]
    assert chat.requests[0].schema is not None and "ranking" in chat.requests[0].schema["required"]
    assert [(hit.rank, hit.score) for hit in found] == [(1, 0.9), (2, 0.5), (3, 0.1)]
    mixed = rerank_hits(query="q", hits=hits(0.9, 0.5, 0.1), method="mixed")
    assert order(mixed) == ["text 2", "text 1", "text 3"]
    with pytest.raises(InvalidInputError, match="RAG_RERANK_URL"):
        rerank_hits(query="q", hits=hits(0.9, 0.5), method="endpoint")
    settings.RAG = {**settings.RAG, "RERANK_URL": f"{endpoint.origin}/v1", "RERANK_MODEL": "m"}
    by_endpoint = rerank_hits(query="q", hits=hits(0.9, 0.5, 0.1), method="endpoint")
    assert order(by_endpoint) == ["text 3", "text 2", "text 1"]
    endpoint.scores = [0.0, 1.0, 0.1]
    assert order(rerank_hits(query="q", hits=hits(0.9, 0.5, 0.1), method="mixed"))[0] == "text 2"
    chat.answer = lambda request: "I cannot."
    with pytest.raises(ProviderError, match="no ranking"):
        rerank_hits(query="q", hits=hits(0.9, 0.5), method="llm")
    many = [Hit(text=str(number), rank=number + 1) for number in range(30)]
    endpoint.scores = [0.5] * 20
    assert order(rerank_hits(query="q", hits=many, method="endpoint")) == order(many)
    assert rerank_module.MAX_TEXTS == 20


@pytest.mark.django_db
def test_a_long_text_is_sent_to_a_bound_and_less_of_it_to_a_chat_model(
    settings: Any, monkeypatch: pytest.MonkeyPatch, endpoint: RerankServer
) -> None:
    from rag.services.wiring import registry as wiring
    from tests.integration.agent_world import Heard

    long = [Hit(text="x" * 5000, rank=1), Hit(text="x" * 5000, rank=2)]
    settings.RAG = {**settings.RAG, "RERANK_URL": f"{endpoint.origin}/v1"}
    rerank_hits(query="q", hits=long, method="endpoint")
    assert [len(text) for text in endpoint.calls[-1].json["documents"]] == [3600, 3600]
    ranking = {"ranking": [{"id": 1, "score": 1}, {"id": 2, "score": 9}]}
    chat = Heard(lambda request: json.dumps(ranking))
    monkeypatch.setattr(wiring, "chat_model", lambda name="": chat)
    rerank_hits(query="q", hits=long, method="llm")
    assert chat.requests[-1].messages[1].content.count("x") == 2 * MAX_CHARACTERS == 1800


def test_settings_know_only_ways_that_are_there() -> None:
    assert RetrievalSettings.from_dict({"rerank": "mixed"}).rerank == "mixed"
    with pytest.raises(UnknownNameError, match="endpoint, llm, mixed, none"):
        RetrievalSettings.from_dict({"rerank": "magic"})


def test_every_search_is_ranked_as_its_settings_say(world: AgentWorld) -> None:
    def answer(request: Any) -> str:
        n = request.messages[-1].content.count("<document id=")
        rows = [{"id": number, "score": min(10, number)} for number in range(1, n + 1)]
        return json.dumps({"ranking": rows})

    chat = world.use(answer)
    asked: dict[str, Any] = {
        "query": "pump filter warranty",
        "scope": world.scope,
        "stores": [world.store],
    }
    plain = retrieve(**asked, settings=RetrievalSettings(top_k=3), purpose="evaluation")
    assert plain.rerank == "" and chat.requests == []
    wanted = RetrievalSettings(top_k=2, rerank="llm", rerank_top_k=4)
    again = retrieve(**asked, settings=wanted, purpose="evaluation")
    assert (again.rerank, len(again.hits), len(chat.requests)) == ("llm", 2, 1)
    # Neighbours were merged before, so that a model reads each passage once and whole.
    assert again.hits[0].score == 0.2 and "rerank" in again.timings_ms
    found = retrieve(**asked, settings=wanted)
    assert found.metadata["rerank"] == "llm" and len(found.hits) == 2
    assert len(chat.requests) == 2, "one ranking, however many searches it took"
    chat.answer = lambda request: "no ranking"
    kept = retrieve(**asked, settings=wanted.but(top_k=3), purpose="evaluation")
    assert (kept.rerank, order(kept.hits)) == ("failed", order(plain.hits))
    n_before = len(chat.requests)
    for _ in range(2):
        assert retrieve(**asked, settings=wanted.but(top_k=3)).rerank == "failed"
    assert len(chat.requests) == n_before + 2, "an order that failed is not kept"
    with pytest.raises(ConfigurationError, match="only quotes"):
        world.monkeypatch.undo()
        rerank_hits(query="q", hits=hits(0.9, 0.5), method="llm")


def test_an_agent_ranks_more_than_three_and_keeps_the_best(world: AgentWorld) -> None:
    def answer(request: Any) -> str:
        shown = request.messages[-1].content
        if "<documents>" in shown and "ranking" in request.messages[0].content:
            ids = range(1, shown.count("<document id=") + 1)
            texts = shown.split("<document id=")[1:]
            return json.dumps(
                {
                    "ranking": [
                        {"id": n, "score": 10 if "filter" in texts[n - 1] else 1} for n in ids
                    ]
                }
            )
        return "The filter costs 45 yuan."

    # Neighbours of one file would be read as one.
    for number in range(4):
        publish(FileFactory(store=world.store, name=f"{number}.txt"), f"pump part {number} " * 9)
    world.set(enable_rerank=True, rerank_top_k=2, default_top_k=5)
    world.use(answer)
    told = world.ask("pump")
    sources = told.of("sources")[0]["sources"]
    assert len(sources) == 2 and "filter" in sources[0]["content"] and sources[0]["score"] == 1.0
    assert told.row.confidence == 1.0
    world.set(enable_rerank=True, rerank_top_k=2, default_top_k=5, min_confidence_score=0.5)

    def nothing_useful(request: Any) -> str:
        n = request.messages[-1].content.count("<document id=")
        return json.dumps({"ranking": [{"id": i, "score": 0} for i in range(1, n + 1)]})

    world.use(nothing_useful)
    assert world.ask("pump").row.outcome == "not_found", "the ranking model found none useful"
    world.use(lambda request: "no ranking")
    told = world.ask("pump")
    assert told.of("notice")[0]["step"] == "rerank" and told.last.kind == "done"


@pytest.mark.django_db
def test_how_sure_a_search_is_depends_on_meaning_or_words(settings: Any) -> None:
    like = Hit(text="pump", rank=1, vector=Leg(1, 0.6), lexical=Leg(None, 0.0))
    words = Hit(text="the pump is serviced", rank=2, vector=Leg(2, 0.1), lexical=Leg(1, 2.0))
    far = Hit(text="seeds", rank=3, vector=Leg(3, 0.1), lexical=Leg(None, 0.0))
    judged = filter_by_threshold(
        query="pump serviced", hits=[like, words, far], vector_threshold=0.5, bm25_threshold=0.3
    )
    assert judged.hits == (like, words) and judged.n_below == 1
    assert judged.confidence == 1.0
    assert filter_by_threshold(query="pump serviced", hits=[far]).confidence == 0.1
    assert filter_by_threshold(query="x", hits=[]).confidence == 0.0
    foreign = Hit(text="row of a table", rank=1)
    assert filter_by_threshold(query="x", hits=[foreign], vector_threshold=0.7).hits == (foreign,)
    assert lexical_overlap(query="pump filter", text="a filter") == 0.5


def test_cosines_of_models_are_put_on_one_scale(world: AgentWorld, settings: Any) -> None:
    hit = Hit(text="x", rank=1, store_id=world.store.pk, vector=Leg(1, 0.3))
    assert filter_by_threshold(query="q", hits=[hit]).confidence == 0.3
    scale = [[0.2, 0.0], [0.4, 1.0]]
    settings.RAG = {**settings.RAG, "LIKENESS": {world.store.space.model: scale}}
    assert filter_by_threshold(query="q", hits=[hit]).confidence == 0.5
    for cosine, likeness in ((-1.0, 0.0), (0.2, 0.0), (0.9, 1.0)):
        one = Hit(text="x", rank=1, store_id=world.store.pk, vector=Leg(1, cosine))
        assert filter_by_threshold(query="q", hits=[one]).confidence == likeness
    world.store.space.model = "e5:multilingual-e5-small"
    world.store.space.save()
    settings.RAG = {**settings.RAG, "LIKENESS": {}}
    at = [Hit(text="x", rank=1, store_id=world.store.pk, vector=Leg(1, c)) for c in (0.14, 0.165)]
    assert [filter_by_threshold(query="q", hits=[one]).confidence for one in at] == [0.5, 0.7]

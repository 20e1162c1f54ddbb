"""What documents cannot answer: refused or told on the way from the search to the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rag import models
from rag.core.access import Scope
from rag.core.analysis import MissingTerm
from rag.core.errors import UnknownNameError
from rag.core.types import Answer, ChatReply, RetrievalSettings, SearchResult
from rag.services.access.api_keys import scope_of
from rag.services.answers import ask, stream_ask
from rag.services.search import retrieve
from tests.edges.admin_client import use_words_embedder
from tests.factories import DIM, FileFactory, GroupFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db
OPERATOR = Scope.operator()
TEXTS = (
    "The pump HX-400 has a volume of 400 litres and is serviced by the staff every 500 hours.",
    "The valve VB-12 opens at six bar and it closes again at five when the pressure falls.",
    "泵 HX-400 的 容积 为 400 升，每 500 小时 保养 一次。",
)
OFF_TOPIC = "Who won the chess championship in the capital of the neighbouring country?"
RIGHT = "What is the volume of the pump HX-400?"
UNKNOWN = "What is the volume of the pump HX-900?"


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)
    # Cosines of hashed words, put on the calibrated scale.
    scale = [[0.0, 0.0], [0.35, 0.5], [0.4, 0.7], [0.7, 1.0]]
    settings.RAG = {**settings.RAG, "LIKENESS": {f"words:{DIM}": scale}}


@pytest.fixture
def store() -> models.Store:
    store = StoreFactory(is_public=True)
    for number, text in enumerate(TEXTS):
        publish(FileFactory(store=store, name=f"{number}.txt"), text)
    store.refresh_from_db()
    return store


def find(store: models.Store, query: str, scope: Scope = OPERATOR, **changes: Any) -> SearchResult:
    settings = store.retrieval_settings.but(**changes)
    return retrieve(query=query, scope=scope, stores=[store], settings=settings)


def put(store: models.Store, query: str, **changes: Any) -> Answer:
    settings = store.retrieval_settings.but(**changes)
    return ask(question=query, scope=OPERATOR, stores=[store], settings=settings)


def verdict(found: SearchResult) -> str:
    return found.answerability.verdict if found.answerability else ""


def test_a_right_question_is_answered_without_a_word(store: models.Store) -> None:
    found = find(store, RIGHT)
    assert verdict(found) == "answerable" and found.confidence == 1.0
    assert found.metadata["answerability"]["verdict"] == "answerable"
    assert "does not occur" not in put(store, RIGHT).notice


def test_what_the_documents_are_not_about_is_refused_without_a_model(store: models.Store) -> None:
    found = find(store, OFF_TOPIC)
    assert verdict(found) == "off_topic" and (found.confidence or 0) <= 0.2
    answer = put(store, OFF_TOPIC)
    assert answer.text.startswith("Nothing relevant was found.")
    assert (answer.model, answer.citations) == ("", ())
    assert models.QueryLog.objects.latest("pk").answer == answer.text


async def refusal_in_pieces(store: models.Store) -> list[Any]:
    return [one async for one in stream_ask(question=OFF_TOPIC, scope=OPERATOR, stores=[store])]


@pytest.mark.django_db(transaction=True)
async def test_a_refusal_is_streamed(transactional_db: None) -> None:
    from asgiref.sync import sync_to_async

    def made() -> models.Store:
        store = StoreFactory(is_public=True)
        publish(FileFactory(store=store), TEXTS[0])
        return models.Store.objects.get(pk=store.pk)

    *pieces, answer = await refusal_in_pieces(await sync_to_async(made)())
    assert "".join(one.text for one in pieces if isinstance(one, ChatReply)) == answer.text
    assert answer.text.startswith("Nothing relevant was found")


def test_answering_anyway_is_a_setting(store: models.Store) -> None:
    found = find(store, OFF_TOPIC, unanswerable="answer")
    assert found.answerability is None
    assert put(store, OFF_TOPIC, unanswerable="answer").model == "extractive:sentences"
    with pytest.raises(UnknownNameError, match="answer, refuse, warn"):
        RetrievalSettings(unanswerable="perhaps")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (UNKNOWN, "HX-900 does not occur in these documents; the nearest is HX-400."),
        ("HX-900 的 容积 是多少？", "这些文档中没有出现 HX-900；最接近的是 HX-400。"),
        ("What does article 47 say about the pump?", "article 47 does not occur"),
        ("What was the volume of the pump HX-400 in 1987?", "1987 does not occur"),
    ],
)
def test_what_no_document_mentions_is_told(store: models.Store, query: str, told: str) -> None:
    found = find(store, query)
    assert verdict(found) in ("doubtful", "off_topic") and (found.confidence or 0) <= 0.5
    answer = put(store, query)
    assert told in answer.notice + answer.text
    refused = put(store, query, unanswerable="refuse")
    assert refused.model == "" and told in refused.text


def test_what_stands_further_down_in_the_index_is_not_told(store: models.Store) -> None:
    others = [f"The pump has a volume of {n} litres." for n in range(40)]
    publish(FileFactory(store=store, name="many.txt"), *others, gap=2000)
    publish(FileFactory(store=store, name="far.txt"), "ZX 12 34: a lamp, black.")
    found = find(store, "What is the volume of the pump ZX-12-34?", top_k=1)
    assert found.answerability is not None and found.answerability.missing == ()


def test_what_the_caller_may_not_read_does_not_occur(store: models.Store) -> None:
    hidden = FileFactory(store=store, name="secret.txt")
    hidden.restricted_to.add(GroupFactory())
    publish(hidden, "The pump HX-900 is secret.")
    reader = scope_of(UserFactory())
    seen = find(store, UNKNOWN, scope=reader).answerability
    assert seen is not None and seen.missing == (MissingTerm("HX-900", "HX-400"),)
    own = find(store, UNKNOWN).answerability
    assert own is not None and own.missing == ()


def test_an_empty_store_is_refused(db: None) -> None:
    answer = put(StoreFactory(), "泵多久保养一次？")
    assert answer.text == "没有找到相关内容。"


def test_without_a_calibration_nothing_is_refused(store: models.Store, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "LIKENESS": {}}
    assert verdict(find(store, OFF_TOPIC)) == "doubtful"
    assert put(store, OFF_TOPIC).model == "extractive:sentences"
    assert "may not answer this question" in put(store, OFF_TOPIC).notice


def test_a_similarity_threshold_keeps_out_what_only_shares_a_word(store: models.Store) -> None:
    everything = find(store, "When is the pump of the neighbour red?", top_k=3)
    assert everything.metadata["below_thresholds"] == 0 and len(everything.hits) == 3
    near = find(store, "When is the pump of the neighbour red?", top_k=3, vector_threshold=0.9)
    assert near.hits == () and near.metadata["below_thresholds"] == 3
    both = find(
        store, "When is the pump of the neighbour red?", vector_threshold=0.9, bm25_threshold=0.1
    )
    assert both.hits and all((hit.lexical.score or 0) >= 0.1 for hit in both.hits)
    answer = put(store, "When is the pump of the neighbour red?", vector_threshold=0.9)
    assert answer.text.endswith("Results below the thresholds were left out: 3.")


def test_a_threshold_of_meaning_asks_nothing_of_a_search_by_words(store: models.Store) -> None:
    found = find(store, "valve pressure", mode="keyword", vector_threshold=0.9)
    assert [hit.file_name for hit in found.hits] == ["1.txt"]


def test_what_is_told_is_json(store: models.Store) -> None:
    metadata = find(store, UNKNOWN).metadata
    assert json.loads(json.dumps(metadata["answerability"])) == metadata["answerability"]

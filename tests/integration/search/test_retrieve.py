"""Retrieval with judgement: mode, number, filters, fallbacks, what is done to hits, what is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rag import models
from rag.core.access import Scope
from rag.core.analysis import CONTENT_TYPES
from rag.core.errors import InvalidInputError, UnknownNameError
from rag.core.types import RetrievalSettings, SearchResult
from rag.services.access.api_keys import scope_of
from rag.services.search.engine import Candidates, run_search
from rag.services.search.retrieval import RetrievalRequest, retrieve, run_retrieval
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db
OPERATOR = Scope.operator()


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


@pytest.fixture
def store() -> models.Store:
    store = StoreFactory(is_public=True, vocabulary={"character": ["Ahab", "Starbuck"]})
    publish(
        FileFactory(store=store, name="pump.txt"),
        "the warranty of the pump lasts two years",
        "the valve is blue and closes by hand",
    )
    publish(
        FileFactory(store=store, name="ship.txt", content_type="character"),
        "Ahab commands the ship and hunts the whale",
    )
    publish(FileFactory(store=store, name="log.txt"), "Ahab signed the log of the ship")
    store.refresh_from_db()
    return store


class Engine:
    """The real search, with a record of what it was asked."""

    def __init__(self) -> None:
        self.asked: list[RetrievalSettings] = []

    def __call__(self, **values: Any) -> Candidates:
        self.asked.append(values["settings"])
        return run_search(**values)

    @property
    def modes(self) -> list[str]:
        return [settings.mode for settings in self.asked]


def find(store: models.Store, query: str, **values: Any) -> tuple[SearchResult, Engine]:
    engine = Engine()
    given = {"scope": OPERATOR, "settings": store.retrieval_settings, **values}
    request = RetrievalRequest(query=query, stores=[store], engine=engine, **given)
    found = run_retrieval(request)
    json.dumps(found.metadata)
    assert [hit.rank for hit in found.hits] == list(range(1, len(found.hits) + 1))
    assert len(found.hits) <= found.metadata["top_k"]
    return found, engine


@pytest.mark.parametrize(
    ("query", "intent", "mode"),
    [
        ("How long is the warranty of the pump?", "lookup", "hybrid"),
        ("Why is the valve blue?", "understand", "hybrid"),
        ("Where is QX-4100-C in the manual?", "find_specific", "hybrid"),
        ("“blue and closes by hand”", "find_specific", "keyword"),
        ("Compare the valve and the pump", "compare", "hybrid"),
    ],
)
def test_only_what_is_looked_for_letter_by_letter_is_left_to_the_words(
    query: str, intent: str, mode: str, store: models.Store
) -> None:
    found, engine = find(store, query)
    told = found.metadata
    assert (told["mode"], told["query_intent"], told["intent"]) == (mode, intent, intent)
    assert engine.modes == [mode]
    assert (told["fallback"], told["fallback_reasons"]) == (None, {})
    assert "pump.txt" in {hit.file_name for hit in found.hits} or "QX" in query
    assert set(told["timings_ms"]) >= {"analyze", "search", "refine", "total"}


def test_an_explicit_mode_wins_over_the_settings_and_these_over_the_query(
    store: models.Store,
) -> None:
    query, own = "Why is the valve blue?", RetrievalSettings(mode="keyword")
    assert find(store, query, settings=own)[1].modes == ["keyword"]
    assert find(store, query, settings=own.in_mode("hybrid"))[1].modes == ["hybrid"]
    assert find(store, query, settings=own.in_mode("auto"))[1].modes == ["keyword"]
    store.retrieval = {"mode": "keyword", "top_k": 2}
    found, engine = find(store, query)
    assert (engine.modes, found.metadata["top_k"]) == (["keyword"], 2)


def test_a_question_whose_words_no_text_holds_is_asked_by_meaning_too(store: models.Store) -> None:
    found, engine = find(store, "How long is the guarantee period of machines?")
    assert (engine.modes, found.metadata["fallback"]) == (["hybrid"], None)
    assert find(store, "保修期是多久？")[0].hits


def test_a_code_that_no_text_holds_leads_to_both_legs(store: models.Store) -> None:
    found, engine = find(store, "QX-4100-C")
    assert engine.modes == ["keyword", "hybrid"]
    assert (found.metadata["fallback"], found.mode) == ("hybrid", "hybrid")
    assert found.metadata["fallback_reasons"] == {"mode": "nothing_found"}
    assert find(store, "Why does QX-4100-C stop?")[1].modes == ["hybrid"]


def test_an_explicit_leg_is_never_given_up(store: models.Store) -> None:
    found, engine = find(store, "zebra crossing", settings=RetrievalSettings(mode="keyword"))
    assert (engine.modes, found.hits, found.metadata["total_found"]) == (["keyword"], (), 0)
    assert found.metadata["fallback"] is None


@pytest.mark.parametrize(
    ("query", "top_k"),
    [
        ("How long is the warranty?", 3),
        ("Compare the valve and the pump", 5),
        ("When does it open, who is in charge and what is the fee?", 10),
    ],
)
def test_the_complexity_chooses_the_number(query: str, top_k: int, store: models.Store) -> None:
    publish(
        FileFactory(store=store, name="more.txt"),
        *(f"pump note {word}" for word in "abcdefghijklm"),
    )
    found, engine = find(store, query)
    assert found.metadata["top_k"] == found.top_k == top_k
    assert engine.asked[0].top_k == 2 * top_k + 4
    assert find(store, query, settings=RetrievalSettings(top_k=1))[0].metadata["top_k"] == 1


def test_entities_filter_by_content_type_where_there_is_one(store: models.Store) -> None:
    found, engine = find(store, "Who is Ahab?")
    assert engine.asked[0].content_types == ("character",)
    assert found.metadata["content_types"] == ["character"]
    assert {hit.file_name for hit in found.hits} == {"ship.txt"}
    assert found.metadata["entities"] == [{"type": "character", "value": "Ahab"}]


def test_chapters_mean_outlines_only_where_there_are_some(store: models.Store) -> None:
    assert find(store, "What does chapter 3 say?")[0].metadata["content_types"] is None
    publish(FileFactory(store=store, content_type="outline"), "chapter 3: the storm")
    found, _ = find(store, "What does chapter 3 say?")
    assert found.metadata["content_types"] == ["outline"]
    assert found.hits[0].text == "chapter 3: the storm"


def test_a_store_maps_its_own_types(store: models.Store) -> None:
    store.vocabulary = {"crew": ["Ahab"], f"{CONTENT_TYPES}crew": ["log", "character", "nowhere"]}
    found, _ = find(store, "Who is Ahab?")
    assert found.metadata["content_types"] == ["character"]
    store.vocabulary = {"document": ["Ahab"]}
    assert find(store, "Who is Ahab?")[0].metadata["content_types"] == ["document"]


def test_a_filter_that_leaves_nothing_is_taken_back(store: models.Store) -> None:
    store.vocabulary = {"character": ["Ishmael"]}
    found, engine = find(store, "Ishmael", settings=RetrievalSettings(mode="keyword"))
    assert [s.content_types for s in engine.asked] == [("character",), ()]
    assert found.metadata["content_types"] is None
    assert found.metadata["fallback_reasons"] == {"content_types": "nothing_found"}


def test_a_filter_of_the_settings_is_kept_whatever_it_leaves(store: models.Store) -> None:
    chosen = RetrievalSettings(content_types=("nowhere",))
    found, engine = find(store, "Who is Ahab?", settings=chosen)
    assert found.hits == ()
    assert {s.content_types for s in engine.asked} == {("nowhere",)}


def test_types_of_files_that_one_may_not_read_filter_nothing() -> None:
    readers, board = GroupFactory(), GroupFactory()
    store = StoreFactory(readers=[readers], vocabulary={"character": ["Ahab"]})
    publish(FileFactory(store=store), "Ahab signed the log")
    publish(
        FileFactory(store=store, content_type="character", restricted=[board]),
        "Ahab is the captain",
    )
    reader = scope_of(UserFactory(groups=[readers]))
    found, _ = find(store, "Who is Ahab?", scope=reader)
    assert found.metadata["content_types"] is None
    assert [hit.text for hit in found.hits] == ["Ahab signed the log"]


def test_a_store_that_one_may_not_read_gives_nothing_away(store: models.Store) -> None:
    hidden = StoreFactory(vocabulary={"secret": ["Project Zebra"]})
    publish(FileFactory(store=hidden), "Project Zebra starts in May")
    found, _ = find(hidden, "When does Project Zebra start?", scope=Scope.anonymous())
    assert (found.hits, found.metadata["stores"]) == ((), [])
    assert "secret" not in json.dumps(found.metadata)
    result = retrieve(
        query="When does Project Zebra start?", scope=Scope.anonymous(), stores=[hidden, store]
    )
    assert result.analysis is not None
    assert result.analysis.entities == ()
    assert models.QueryLog.objects.order_by("pk").first().store_ids == []


def test_repeats_go_neighbours_join_and_other_files_get_a_place(store: models.Store) -> None:
    text = "the pump of the station needs oil every week and a new seal every spring"
    publish(FileFactory(store=store, name="copy 1.txt"), text)
    publish(FileFactory(store=store, name="copy 2.txt"), text.upper())
    publish(
        FileFactory(store=store, name="long.txt"), "pump chapter one: oil", "pump chapter two: seal"
    )
    found, _ = find(store, "pump oil seal", settings=RetrievalSettings(mode="hybrid", top_k=4))
    assert found.metadata["dropped_duplicates"] == 1
    assert found.metadata["merged"] >= 1
    (joined,) = [hit for hit in found.hits if hit.file_name == "long.txt"]
    file = models.File.objects.get(name="long.txt")
    assert joined.text == file.canonical_text[joined.char_start : joined.char_end]
    assert joined.text == "pump chapter one: oil\fpump chapter two: seal"
    assert (joined.page_first, joined.page_last) == (1, 2)
    assert found.metadata["returned"] == len(found.hits)
    assert found.metadata["total_found"] >= len(found.hits) + 2


def test_an_edited_chunk_is_not_joined(store: models.Store) -> None:
    chunks = publish(FileFactory(store=store, name="long.txt"), "pump one: oil", "pump two: seal")
    models.Chunk.objects.filter(pk=chunks[0].pk).update(text="pump 1: oil!!", revision=2)
    found, _ = find(store, "pump oil seal", settings=RetrievalSettings(mode="hybrid", top_k=9))
    assert {"pump 1: oil!!", "pump two: seal"} <= {hit.text for hit in found.hits}


def test_one_row_of_the_log_tells_what_was_given(store: models.Store) -> None:
    user = UserFactory()
    found, _ = find(store, "保修期是多久？", scope=scope_of(user))
    row = models.QueryLog.objects.get()
    assert (row.mode, row.top_k, row.user_id) == ("hybrid", 3, user.pk)
    assert row.chunk_ids == [pk for hit in found.hits for pk in hit.chunk_ids]
    assert row.store_ids == [store.pk]


def test_what_cannot_be_searched_is_an_error(store: models.Store) -> None:
    with pytest.raises(UnknownNameError, match="Known: auto, hybrid, keyword, semantic"):
        find(store, "pump", settings=RetrievalSettings().in_mode("magic"))
    with pytest.raises(InvalidInputError, match="The query is empty"):
        find(store, " \0 ")
    with pytest.raises(InvalidInputError, match="No store was chosen"):
        retrieve(query="pump", scope=OPERATOR, stores=[])


@pytest.mark.django_db(transaction=True)
def test_by_default_the_cached_search_is_asked(store: models.Store) -> None:
    first = retrieve(query="the warranty of the pump", scope=OPERATOR, stores=[store])
    again = retrieve(query="the warranty of the pump", scope=OPERATOR, stores=[store])
    assert [hit.text for hit in first.hits] == [hit.text for hit in again.hits]
    assert "cache" in again.metadata["timings_ms"]

"""The one search: what a caller may find, what settings change, what is kept in the log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, NotFoundError, UnknownNameError
from rag.core.types import RetrievalSettings, SearchResult
from rag.services.access.api_keys import scope_of
from rag.services.search.confidence import filter_by_threshold
from rag.services.search.engine import MAX_QUERY, Candidates
from rag.services.search.retrieval import retrieve
from rag.services.stores.lifecycle import (
    create_store,
    delete_store,
    find_stores,
    stores_with_vocabulary,
)
from rag.services.wiring import registry as wiring
from tests.edges.admin_client import use_words_embedder
from tests.factories import (
    FileFactory,
    GroupFactory,
    SpaceFactory,
    StoreFactory,
    UserFactory,
    publish,
)
from tests.index_hits import index_hits

pytestmark = pytest.mark.django_db
OPERATOR = Scope.operator()


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


@pytest.fixture
def store() -> models.Store:
    store = StoreFactory(is_public=True)
    publish(FileFactory(store=store, name="pump.txt"), "the pump stops", "the valve is blue")
    publish(
        FileFactory(store=store, name="water.txt", metadata={"lang": "zh"}, content_type="manual"),
        "水泵过热时等待冷却",
    )
    store.refresh_from_db()
    return store


def find(store: models.Store, query: str, scope: Scope = OPERATOR, **changes: Any) -> SearchResult:
    settings = RetrievalSettings(**changes)
    return retrieve(query=query, scope=scope, stores=[store], settings=settings)


def chunks(store: models.Store, query: str, scope: Scope = OPERATOR, **changes: Any) -> Candidates:
    """Search as the engine does: nothing is merged, and each chunk has a place of its own."""
    settings = RetrievalSettings(**changes)
    return index_hits(query=query, scope=scope, stores=[store], settings=settings)


def texts(result: SearchResult | Candidates) -> list[str]:
    return [hit.text for hit in result.hits]


def test_hits_carry_their_place_and_both_legs(store: models.Store) -> None:
    result = find(store, "pump stops")
    best = chunks(store, "pump stops").hits[0]
    assert (best.text, best.file_name, best.rank) == ("the pump stops", "pump.txt", 1)
    assert (best.page_first, best.char_start, best.char_end) == (1, 0, 14)
    assert best.vector.rank == best.lexical.rank == 1
    assert set(best.matched_terms) == {"pump", "stop"}
    assert best.revision == 1
    assert set(result.timings_ms) >= {"access", "embed", "sql", "total"}
    assert result.settings_hash == RetrievalSettings().hash


def test_words_that_the_index_names_are_as_good_as_those_read_off_the_texts() -> None:
    store = StoreFactory(is_public=True)
    publish(
        FileFactory(store=store),
        "The pump's filters are serviced yearly; type HX-4471-B stops.",
        "水泵过热时，等待冷却十五分钟后再重启过滤器。",
        "中华人民共和国民法典规定物业服务的费用",
        "Nothing here.",
    )
    asked = (
        "How often are filters of the pump serviced?",
        "HX-4471-B",
        "水泵",
        "过滤器多久重启一次？",
        "物业服务费用由谁规定",
        "the of",
    )
    n_named = 0
    for query in asked:
        hits = chunks(store, query, top_k=4).hits
        n_named += sum(bool(hit.matched_terms) for hit in hits)
        bare = [replace(hit, matched_terms=()) for hit in hits]
        for named, unnamed in zip(hits, bare, strict=True):
            assert filter_by_threshold(query=query, hits=[named]) == replace(
                filter_by_threshold(query=query, hits=[unnamed]), hits=(named,)
            )
    assert n_named >= len(asked) - 1
    # A character inside a word is found in the text, and is no word of it.
    assert filter_by_threshold(query="泵", hits=chunks(store, "泵", top_k=1).hits).confidence == 1.0


def test_the_store_s_own_settings_are_the_default(store: models.Store) -> None:
    store.retrieval = {"mode": "keyword", "top_k": 1}
    result = retrieve(query="pump", scope=OPERATOR, stores=[store])
    assert (result.mode, result.top_k, len(result.hits)) == ("keyword", 1, 1)
    assert result.settings_hash == RetrievalSettings(mode="keyword", top_k=1).hash


@pytest.mark.parametrize("mode", ["auto", "hybrid", "semantic", "keyword"])
def test_every_mode_finds_and_says_which_legs_it_asked(mode: str, store: models.Store) -> None:
    result = find(store, "pump", mode=mode)
    best = result.hits[0]
    assert best.text.startswith("the pump stops")
    assert result.mode == ("hybrid" if mode == "auto" else mode)
    assert (best.vector.rank is None) == (mode == "keyword")
    assert (best.lexical.rank is None) == (mode == "semantic")


def test_a_leg_that_was_not_asked_has_no_score(store: models.Store) -> None:
    semantic, keyword = (chunks(store, "pump stops", mode=mode) for mode in ("semantic", "keyword"))
    assert {hit.lexical.score for hit in semantic.hits} == {None}
    assert {hit.vector.score for hit in keyword.hits} == {None}
    assert all(hit.vector.score is not None for hit in semantic.hits)
    assert all(hit.lexical.score for hit in keyword.hits)
    both = chunks(store, "pump stops").hits
    assert all(hit.vector.score is not None and hit.lexical.score is not None for hit in both)


@pytest.mark.parametrize(
    ("query", "top_k"),
    [
        ("pump", 3),
        ("compare the pump and the valve", 5),
        ("When does it stop, who fixes it and what does it cost?", 10),
    ],
)
def test_the_number_of_hits_follows_the_complexity_of_the_query(
    query: str, top_k: int, store: models.Store
) -> None:
    result = find(store, query)
    assert result.top_k == top_k
    assert result.analysis is not None
    assert result.analysis.top_k == top_k
    assert "analyze" in result.timings_ms
    assert result.mode == "hybrid", "a guess hides no leg"
    fixed = find(store, query, top_k=2)
    assert (fixed.top_k, len(fixed.hits)) == (2, 2)


def test_the_analysis_knows_the_store_s_names(store: models.Store) -> None:
    store.vocabulary = {"product": ["HX-400"]}
    result = find(store, "What does the hx-400 weigh?")
    assert result.analysis is not None
    assert result.analysis.as_dict()["entities"] == [{"type": "product", "value": "hx-400"}]


def test_a_keyword_search_embeds_nothing(
    store: models.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "embedder_of", None)
    assert texts(find(store, "valve", mode="keyword")) == ["the valve is blue"]
    assert texts(find(store, "nowhere", mode="keyword")) == []


@pytest.mark.parametrize("query", ["", "   ", "\0", " \n\0\t", "\ud800"])
def test_an_empty_query_is_an_error(query: str, store: models.Store) -> None:
    with pytest.raises(InvalidInputError, match="The query is empty"):
        find(store, query)


@pytest.mark.parametrize("query", ["pump\0", "\0pump", "pump\ud83d", "  pump\n"])
def test_what_postgres_cannot_keep_is_taken_out_of_a_query(query: str, store: models.Store) -> None:
    result = find(store, query)
    assert result.query == "pump"
    assert texts(result)[0].startswith("the pump stops")


def test_a_query_over_the_limit_is_an_error_and_at_the_limit_none(store: models.Store) -> None:
    assert find(store, ("pump " * MAX_QUERY)[:MAX_QUERY]).hits
    with pytest.raises(InvalidInputError, match=r"4001 characters.*Allowed: 4000"):
        find(store, "x" * (MAX_QUERY + 1))


@pytest.mark.parametrize(
    "query", ["'; DROP TABLE rag_chunk; --", "%s {x} \\", "()*&|!:", "？！。", "𠮷"]
)
def test_signs_are_a_query_like_any(query: str, store: models.Store) -> None:
    assert find(store, query).query == query


def test_no_store_is_an_error() -> None:
    with pytest.raises(InvalidInputError, match="No store was chosen"):
        retrieve(query="pump", scope=OPERATOR, stores=[])


def test_an_empty_store_has_no_hits() -> None:
    result = find(StoreFactory(), "pump")
    assert (result.hits, result.top_k) == ((), 3)


def test_a_store_that_one_may_not_read_is_as_if_empty() -> None:
    group = GroupFactory()
    store = StoreFactory(readers=[group])
    publish(FileFactory(store=store), "the secret pump")
    reader, stranger = UserFactory(groups=[group]), UserFactory()
    assert texts(find(store, "pump", scope_of(reader))) == ["the secret pump"]
    assert texts(find(store, "pump", scope_of(stranger))) == []
    assert texts(find(store, "pump", Scope.anonymous())) == []
    assert models.QueryLog.objects.order_by("pk").last().store_ids == []


def test_a_restricted_file_is_found_by_its_groups_and_editors_only() -> None:
    readers, board, owner = GroupFactory(), GroupFactory(), UserFactory()
    store = StoreFactory(readers=[readers], owner=owner)
    publish(FileFactory(store=store, name="open.txt"), "the pump for all")
    publish(
        FileFactory(store=store, name="board.txt", restricted=[board]), "the pump for the board"
    )
    member = UserFactory(groups=[readers, board])
    for mode in ("hybrid", "semantic", "keyword"):
        found = [
            len(find(store, "pump", scope_of(user), mode=mode).hits)
            for user in (UserFactory(groups=[readers]), member, owner)
        ]
        assert found == [1, 2, 2], mode


def test_a_disabled_chunk_is_not_found(store: models.Store) -> None:
    models.Chunk.objects.filter(text="the pump stops").update(enabled=False)
    assert "the pump stops" not in texts(chunks(store, "pump stops"))


def test_metadata_and_content_type_filter(store: models.Store) -> None:
    assert texts(find(store, "the pump", metadata={"lang": "zh"})) == ["水泵过热时等待冷却"]
    assert texts(find(store, "the pump", metadata={"lang": "fr"})) == []
    assert texts(find(store, "the pump", content_types=("manual",))) == ["水泵过热时等待冷却"]
    assert len(chunks(store, "the pump", content_types=("document", "manual")).hits) == 3


def test_thresholds_leave_out_what_is_below(store: models.Store) -> None:
    everything = chunks(store, "pump stops", mode="semantic")
    assert len(everything.hits) == 3
    second = everything.hits[1].vector.score
    assert second is not None
    kept = find(store, "pump stops", mode="semantic", vector_threshold=min(1.0, second + 0.01))
    assert texts(kept) == ["the pump stops"] and kept.metadata["below_thresholds"] == 2
    assert find(store, "pump", mode="keyword", bm25_threshold=1000).hits == ()


def test_several_stores_also_in_different_spaces_are_one_search(store: models.Store) -> None:
    other = StoreFactory(space=SpaceFactory(model="words:32", dim=32))
    publish(FileFactory(store=other), "the other pump stops")
    result = retrieve(query="pump stops", scope=OPERATOR, stores=[store, other])
    assert {hit.store_id for hit in result.hits[:2]} == {store.pk, other.pk}
    assert set(result.routes) == {store.space_id, other.space_id}
    assert [hit.rank for hit in result.hits] == list(range(1, len(result.hits) + 1))


def test_top_k_limits_the_hits(store: models.Store) -> None:
    assert len(find(store, "the pump", top_k=2).hits) == 2
    with pytest.raises(InvalidInputError, match="top_k is 0"):
        find(store, "x", top_k=0)
    with pytest.raises(UnknownNameError, match="Known: auto, hybrid, keyword, semantic"):
        find(store, "x", mode="magic")


def test_a_search_is_logged_with_its_caller(store: models.Store) -> None:
    user = UserFactory()
    result = find(store, "pump", scope_of(user), top_k=2)
    row = models.QueryLog.objects.get()
    assert (row.kind, row.query, row.user_id, row.store_ids) == (
        "search",
        "pump",
        user.pk,
        [store.pk],
    )
    assert row.chunk_ids == [pk for hit in result.hits for pk in hit.chunk_ids]
    assert (row.settings_hash, row.mode, row.top_k) == (result.settings_hash, "hybrid", 2)
    assert row.best_score == pytest.approx(result.hits[0].score)
    assert row.timings_ms["total"] > 0
    assert row.confidence == result.confidence


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "keyword"])
def test_a_result_says_how_sure_it_is(mode: str, store: models.Store) -> None:
    sure, doubtful = find(store, "pump stops", mode=mode), find(store, "pump zebra", mode=mode)
    assert sure.confidence is not None
    assert doubtful.confidence is not None
    assert sure.confidence > 0.8 > doubtful.confidence > 0
    assert find(StoreFactory(space=store.space), "pump", mode=mode).confidence is None


def test_a_result_names_the_stores_that_were_searched(store: models.Store) -> None:
    hidden, stranger = StoreFactory(space=store.space), scope_of(UserFactory())
    both = [store, hidden]
    assert retrieve(query="pump", scope=OPERATOR, stores=both).store_ids == (store.pk, hidden.pk)
    assert retrieve(query="pump", scope=stranger, stores=both).store_ids == (store.pk,)
    assert retrieve(query="pump", scope=stranger, stores=[hidden]).store_ids == ()


def test_words_of_a_store_are_known_to_its_readers(
    store: models.Store, django_assert_num_queries: Any
) -> None:
    worded = StoreFactory(space=store.space, vocabulary={"product": ["Pelican"]})
    both, stranger = [store, worded], scope_of(UserFactory())
    assert stores_with_vocabulary(stores=both, scope=OPERATOR) == both
    assert stores_with_vocabulary(stores=both, scope=stranger) == [store]
    with django_assert_num_queries(0):
        assert stores_with_vocabulary(stores=[store], scope=stranger) == [store]


def test_a_likeness_is_read_on_the_scale_of_the_model_that_was_searched(
    store: models.Store, settings: Any
) -> None:
    # A cosine of 0.1 and more is certain on this model's own scale.
    scale = [[0.0, 0.0], [0.1, 1.0]]
    settings.RAG = {**settings.RAG, "LIKENESS": {store.space.model: scale}}
    assert find(store, "pump zebra", mode="semantic").confidence == 1.0


def test_a_search_without_log_leaves_none(store: models.Store) -> None:
    retrieve(query="pump", scope=OPERATOR, stores=[store], purpose="answer")
    assert not models.QueryLog.objects.exists()


def test_stores_are_found_by_slug_name_and_resource_name(store: models.Store) -> None:
    other = StoreFactory(name=store.slug)
    for name in (store.slug, store.name, store.resource_name):
        assert find_stores(names=[name], scope=OPERATOR) == [store]
    assert find_stores(names=[other.slug, store.slug, other.slug], scope=OPERATOR) == [other, store]
    many = [other.slug] * 70 + [store.name] * 70
    assert find_stores(names=many, scope=OPERATOR) == [other, store]
    with pytest.raises(NotFoundError):
        find_stores(
            names=[store.slug, *(f"none {n}" for n in range(120)), "x" * 1000], scope=OPERATOR
        )


@pytest.mark.parametrize("name", ["missing", "", "a\0b", "x" * 1000])
def test_an_unknown_store_lists_readable_ones_only(name: str, store: models.Store) -> None:
    hidden = StoreFactory(name="Project X", slug="project-x")
    for wanted in (name, hidden.slug, hidden.name, hidden.resource_name):
        with pytest.raises(Exception, match="There is no store") as caught:
            find_stores(names=[wanted], scope=Scope.anonymous())
        assert str(caught.value) == f"There is no store “{wanted}”. Known: {store.slug}."


def test_a_store_is_made_on_the_configured_space_and_leaves_nothing_behind() -> None:
    store = create_store(name=" 备件 库 ")
    assert (store.name, store.display_name) == ("备件 库", "备件 库")
    assert store.space.model == "words:64"
    with pytest.raises(Exception, match=r"“备件 库” cannot be used"):
        create_store(name="备件 库")
    assert create_store(name="备件-库").slug != store.slug
    with pytest.raises(InvalidInputError, match="A store needs a name"):
        create_store(name="  ")
    publish(FileFactory(store=store), "the pump")
    delete_store(store=store)
    assert not models.Chunk.objects.filter(store_id=store.pk).exists()

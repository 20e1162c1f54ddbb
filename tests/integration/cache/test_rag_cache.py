"""What is kept of a search is gone at the commit of any change, and never before it."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from django.db import connection, connections, transaction
from numpy.typing import NDArray

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError
from rag.core.ports import FileFilter
from rag.core.types import RetrievalSettings
from rag.services.access.api_keys import scope_of
from rag.services.answers.question_answering import ask
from rag.services.search import retrieval
from rag.services.search.engine import MAX_QUERY
from rag.services.search.result_cache import cache_region
from rag.services.search.retrieval import RetrievalRequest, retrieve
from rag.services.usage import MeteredEmbedder
from rag.services.wiring import registry as wiring
from tests.edges.admin_client import use_words_embedder
from tests.factories import DIM, FileFactory, StoreFactory, UserFactory, publish
from tests.fakes.words_embedder import WordsEmbedder
from tests.integration.cache_world import (
    CHANGES,
    KEYWORD,
    OPERATOR,
    World,
    is_cached,
    make_world,
    plain,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


@pytest.fixture
def world() -> World:
    return make_world()


def test_the_second_search_is_the_first_one_s_result(world: World) -> None:
    first, second = world.find(), world.find()
    assert not is_cached(first)
    assert set(first.timings_ms) >= {"access", "embed", "sql", "cache", "total"}
    assert is_cached(second)
    assert plain(second) == plain(first) == plain(world.find_anew())
    texts = [hit.text for hit in second.hits]
    assert texts[0].startswith("the pump manual") and texts[1] == "the secret pump manual"


def test_a_kept_result_is_as_sure_as_when_it_was_found(world: World) -> None:
    first, second = world.find(), world.find()
    assert is_cached(second)
    assert first.confidence == second.confidence == 1.0


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen_at_its_commit(name: str, world: World) -> None:
    change, is_visible = CHANGES[name]
    before = world.find()
    assert is_cached(world.find())
    change(world)
    after = world.find()
    assert not is_cached(after)
    anew = world.find_anew()
    assert plain(after) == plain(anew)
    assert (anew.hits != before.hits) == is_visible
    assert is_cached(world.find()) == (name != "the store is deleted")


@pytest.mark.parametrize("name", [name for name in CHANGES if "deleted" not in name])
def test_a_change_that_is_rolled_back_leaves_everything(name: str, world: World) -> None:
    before = world.find()
    with transaction.atomic():
        CHANGES[name][0](world)
        # Nobody else may ever see this, so it is neither kept nor taken from what is.
        assert [is_cached(world.find()) for _ in range(2)] == [False, False]
        transaction.set_rollback(True)
    world = replace(world, open_file=models.File.objects.get(pk=world.open_file.pk))
    after = world.find()
    assert is_cached(after)
    assert plain(after) == plain(before) == plain(world.find_anew())


@pytest.mark.parametrize(
    "name", ["a chunk is switched off", "a file is restricted", "readers are removed"]
)
def test_before_the_commit_others_find_what_was_and_after_it_what_is(
    name: str, world: World
) -> None:
    before = world.find()
    is_written, may_commit = threading.Event(), threading.Event()

    def write() -> None:
        with transaction.atomic():
            CHANGES[name][0](world)
            is_written.set()
            may_commit.wait(20)
        connections.close_all()

    writer = threading.Thread(target=write)
    writer.start()
    assert is_written.wait(20)
    during = world.find()
    assert is_cached(during)
    assert plain(during) == plain(before)
    assert not is_cached(world.find("blue valve"))
    may_commit.set()
    writer.join(20)
    assert plain(world.find()) == plain(world.find_anew()) != plain(before)
    assert plain(world.find("blue valve")) == plain(world.find_anew("blue valve"))


def test_a_change_while_a_search_runs_is_seen_by_the_next_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state was read before the change: what is kept under it is asked for no more."""
    find = retrieval._retrieve_fresh

    def late(request: RetrievalRequest) -> Any:
        result = find(request)
        models.Chunk.objects.filter(store=world.store).update(enabled=False)
        return result

    monkeypatch.setattr(retrieval, "_retrieve_fresh", late)
    assert world.find().hits
    monkeypatch.undo()
    use_words_embedder(monkeypatch, _settings())
    after = world.find()
    assert not is_cached(after)
    assert after.hits == ()


def _settings() -> Any:
    from django.conf import settings

    return settings


def test_two_that_commit_out_of_order_are_both_seen(world: World) -> None:
    chunks = list(models.Chunk.objects.filter(file=world.open_file).order_by("ordinal"))
    began, may_end = threading.Event(), threading.Event()
    world.find()

    def slow() -> None:
        with transaction.atomic():
            models.Chunk.objects.filter(pk=chunks[0].pk).update(enabled=False)
            began.set()
            may_end.wait(20)
        connections.close_all()

    thread = threading.Thread(target=slow)
    thread.start()
    assert began.wait(20)
    models.Chunk.objects.filter(pk=chunks[1].pk).update(enabled=False)
    assert plain(world.find()) == plain(world.find_anew())
    assert is_cached(world.find())
    may_end.set()
    thread.join(20)
    after = world.find()
    assert not is_cached(after)
    assert plain(after) == plain(world.find_anew())
    assert not {chunk.pk for chunk in chunks[:2]} & {hit.chunk_id for hit in after.hits}


def test_nobody_gets_what_another_one_may_read(world: World) -> None:
    member = Scope(user_id=7, group_ids=frozenset({world.readers.pk}))
    insider = Scope(user_id=8, group_ids=frozenset({world.readers.pk, world.secret.pk}))
    scopes = [insider, member, Scope.anonymous(), OPERATOR, scope_of(world.owner)]
    for _ in range(2):
        found = [{hit.text for hit in world.find(scope=scope).hits} for scope in scopes]
        assert ["the secret pump manual" in texts for texts in found] == [
            True,
            False,
            False,
            True,
            True,
        ]
        assert found[2] == set()


def test_a_user_who_leaves_a_group_has_another_key_at_once(world: World) -> None:
    user = UserFactory(groups=[world.readers, world.secret])
    assert world.find(scope=scope_of(user)).hits
    user.groups.remove(world.secret)
    found = {hit.file_name for hit in world.find(scope=scope_of(user)).hits}
    user.groups.clear()
    assert found == {"a.txt"}
    assert world.find(scope=scope_of(user)).hits == ()


def test_a_scope_that_is_narrowed_to_other_stores_finds_nothing(world: World) -> None:
    assert world.find().hits
    assert world.find(scope=replace(world.scope, only_store_ids=frozenset())).hits == ()


def test_settings_and_stores_have_results_of_their_own(world: World) -> None:
    other = StoreFactory(is_public=True)
    publish(FileFactory(store=other), "pump manual of another store")
    both = [world.fresh_store(), other]
    one = world.find(settings=KEYWORD)
    assert not is_cached(world.find(settings=KEYWORD.but(top_k=1)))
    two = retrieve(query="pump manual", scope=OPERATOR, stores=both, settings=KEYWORD)
    assert not is_cached(two)
    assert len(two.hits) > len(one.hits)
    # Their order is nobody's concern, nor is one that is named twice.
    again = retrieve(
        query="pump manual", scope=OPERATOR, stores=[*both[::-1], other], settings=KEYWORD
    )
    assert is_cached(again)


def test_a_change_of_one_of_two_stores_is_seen(world: World) -> None:
    other = StoreFactory(is_public=True)
    publish(FileFactory(store=other), "pump manual of another store")
    both = [world.fresh_store(), other]
    find = lambda: retrieve(query="pump", scope=OPERATOR, stores=both, settings=KEYWORD)  # noqa: E731
    assert is_cached((find(), find())[1])
    models.Chunk.objects.filter(store=other).update(enabled=False)
    after = find()
    assert not is_cached(after)
    assert {hit.store_id for hit in after.hits} == {world.store.pk}


@pytest.mark.parametrize(
    "spelling", ["  pump   manual ", "pump\nmanual", "ｐｕｍｐ　ｍａｎｕａｌ", "pump\0manual"]
)
def test_spellings_of_the_same_words_share_a_result_and_keep_their_question(
    spelling: str, world: World
) -> None:
    world.find(settings=KEYWORD)
    found = world.find(spelling, settings=KEYWORD)
    assert is_cached(found)
    assert plain(found) == plain(world.find_anew(spelling, settings=KEYWORD))


@pytest.mark.parametrize("spelling", ["  pump   manual ", "ｐｕｍｐ　ｍａｎｕａｌ", "pump manual?"])
def test_where_the_question_decides_on_the_number_its_analysis_must_be_the_same(
    spelling: str, world: World
) -> None:
    by_rules = KEYWORD.but(top_k=None)
    world.find(settings=by_rules)
    assert plain(world.find(spelling, settings=by_rules)) == plain(
        world.find_anew(spelling, settings=by_rules)
    )


def test_what_rules_found_for_a_model_that_failed_is_not_kept(
    world: World, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.RAG = {**settings.RAG, "ANALYSIS_MODEL": "extractive:none"}
    monkeypatch.setattr(
        "rag.services.search.query_analysis._paused_until", {"extractive:none": 1e12}
    )
    assert [is_cached(world.find()) for _ in range(2)] == [False, False]
    assert not is_cached((world.find(settings=KEYWORD), world.find(settings=KEYWORD))[1])


@pytest.mark.parametrize("query", ["", "  ", "\0", "x" * (MAX_QUERY + 1), " x" * MAX_QUERY])
def test_what_the_search_refuses_is_refused_each_time(query: str, world: World) -> None:
    for _ in range(2):
        with pytest.raises(InvalidInputError):
            world.find(query)
    with pytest.raises(InvalidInputError, match="No store"):
        retrieve(query="pump", scope=OPERATOR, stores=[])


def test_a_model_that_fails_is_asked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(space_id: int) -> Any:
        raise InvalidInputError("no model")

    with monkeypatch.context() as patch:
        patch.setattr(wiring, "embedder_of", fail)
        with pytest.raises(InvalidInputError, match="no model"):
            world.find()
    assert world.find().hits


def test_a_store_that_keeps_nothing_is_searched_each_time(world: World) -> None:
    models.Store.objects.filter(pk=world.store.pk).update(cache_ttl_s=0)
    assert not is_cached((world.find(), world.find())[1])
    assert cache_region("results").own()["bypasses"] == 2


def test_hits_are_logged_as_searches_are(world: World) -> None:
    cached = [world.find(purpose="search") for _ in range(2)][1]
    assert is_cached(cached)
    fresh, hit = models.QueryLog.objects.order_by("pk")
    same = (
        "kind",
        "query",
        "user_id",
        "store_ids",
        "settings_hash",
        "mode",
        "top_k",
        "chunk_ids",
        "best_score",
    )
    assert {name: getattr(hit, name) for name in same} == {n: getattr(fresh, n) for n in same}
    assert set(hit.timings_ms) == {"cache", "total"}
    assert "sql" in fresh.timings_ms
    world.find(purpose="answer")
    assert models.QueryLog.objects.count() == 2


def test_only_readable_stores_are_logged(world: World) -> None:
    closed = StoreFactory()
    stores = [world.fresh_store(), closed]
    for _ in range(2):
        retrieve(query="pump", scope=world.scope, stores=stores, settings=RetrievalSettings())
    logged = models.QueryLog.objects.values_list("store_ids", flat=True)
    assert list(logged) == [[world.store.pk]] * 2


def test_changing_a_hit_changes_nobody_else_s(world: World) -> None:
    models.File.objects.filter(store=world.store).update(metadata={"lang": "en"})
    world.find()
    first: Any = world.find().hits[0].metadata
    first["lang"] = "changed"
    assert world.find().hits[0].metadata == {"lang": "en"}


def test_a_search_in_some_files_is_another_one(world: World) -> None:
    everything = world.find()
    one = FileFilter([world.secret_file.pk], 1)
    found = world.find(files=one)
    assert not is_cached(found) and is_cached(world.find(files=one))
    assert [hit.text for hit in found.hits] == ["the secret pump manual"]
    assert plain(found) == plain(world.find_anew(files=one))
    assert len(everything.hits) > 1 and plain(world.find()) == plain(everything)
    none = world.find(files=FileFilter([], 0))
    assert not is_cached(none) and none.hits == ()


def test_a_question_asked_again_is_not_searched_again(world: World) -> None:
    asked = {"question": "pump manual", "scope": world.scope, "stores": [world.fresh_store()]}
    first, second = ask(**asked), ask(**asked)
    assert "sql" in first.timings_ms and "sql" not in second.timings_ms
    assert second.text == first.text and second.citations == first.citations
    assert models.QueryLog.objects.filter(answer=first.text).count() == 2


@pytest.mark.parametrize(("model", "is_open"), [("openai_compatible:m", False), ("e5:m", True)])
def test_no_connection_is_held_while_a_service_makes_the_vector(
    world: World, monkeypatch: pytest.MonkeyPatch, model: str, is_open: bool
) -> None:
    seen: list[bool] = []

    class Watched(WordsEmbedder):
        def embed_query(self, text: str) -> NDArray[np.float32]:
            seen.append(connection.connection is not None)
            return super().embed_query(text)

    made = Watched(DIM)
    made.id = model
    # Models of services are metered, as those that ask none are not.
    embedder = made if is_open else MeteredEmbedder(made)
    monkeypatch.setattr(wiring, "embedder_of", lambda space_id: embedder)
    world.find_anew("a query that nobody asked")
    assert seen == [is_open]

"""RAGCache as an application uses it, and the cache of questions' vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from asgiref.sync import async_to_sync, sync_to_async

from rag import models
from rag.core.access import Scope
from rag.core.errors import NotFoundError
from rag.core.types import RetrievalSettings
from rag.providers.cache.redis_cache import connect
from rag.services.search.engine import embed_query
from rag.services.search.rag_cache import RAGCache
from rag.services.search.result_cache import cache_region
from rag.services.wiring import registry as wiring
from tests.fakes.valkey_server import OwnValkey
from tests.fakes.words_embedder import WordsEmbedder
from tests.integration.cache_world import World, forget_cached, make_world

pytestmark = pytest.mark.django_db(transaction=True)
FOUND = [{"content": "水泵过热 \ud83d", "score": 0.5, "metadata": {"page": 3}}, {"content": ""}]


@pytest.fixture(scope="module")
def server() -> Iterator[OwnValkey]:
    with OwnValkey() as server:
        yield server


@pytest.fixture
def world() -> World:
    return make_world()


@pytest.fixture
def cache(world: World) -> RAGCache:
    return RAGCache(scope=world.scope)


async def fetch(cache: RAGCache, store: str, query: str = "pump", types: Any = None) -> Any:
    """Return what is kept, after a miss what is found then."""
    found = await cache.get(query, store, types)
    if found is None:
        await cache.set(query, store, types, FOUND)
    return found


def disable(world: World) -> None:
    models.Chunk.objects.filter(file=world.open_file).update(enabled=False)


async def test_what_was_set_is_got(cache: RAGCache, world: World) -> None:
    slug = world.store.slug
    assert await cache.get("pump", slug) is None
    await cache.set("pump", slug, None, FOUND)
    assert await cache.get("pump", slug) == FOUND
    assert await cache.get(" ｐｕｍｐ ", slug, []) == FOUND
    assert await cache.get("pump", world.store.resource_name) == FOUND


async def test_no_results_are_a_result(cache: RAGCache, world: World) -> None:
    await cache.set("pump", world.store.slug, None, [])
    assert await cache.get("pump", world.store.slug) == []


async def test_content_types_in_any_order_are_one_question(cache: RAGCache, world: World) -> None:
    await fetch(cache, world.store.slug, types=["b", "a"])
    assert await cache.get("pump", world.store.slug, ["a", "b"]) == FOUND
    assert await cache.get("pump", world.store.slug, ["a"]) is None
    assert await cache.get("pump", world.store.slug) is None


async def test_other_rights_settings_and_questions_have_their_own(
    cache: RAGCache, world: World
) -> None:
    slug = world.store.slug
    await fetch(cache, slug)
    assert await RAGCache(scope=Scope.operator()).get("pump", slug) is None
    settings = RetrievalSettings(top_k=1)
    assert await RAGCache(scope=world.scope, settings=settings).get("pump", slug) is None
    assert await cache.get("valve", slug) is None
    assert await RAGCache(scope=world.scope).get("pump", slug) == FOUND


async def test_who_may_not_read_a_store_is_told_that_there_is_none(world: World) -> None:
    with pytest.raises(NotFoundError, match="There is no store"):
        await RAGCache().get("pump", world.store.slug)
    with pytest.raises(NotFoundError, match="There is no store"):
        await RAGCache().invalidate_project(world.store.slug)


async def test_a_change_makes_it_a_miss(cache: RAGCache, world: World) -> None:
    await fetch(cache, world.store.slug)
    await sync_to_async(disable)(world)
    assert await cache.get("pump", world.store.slug) is None


async def test_what_was_found_before_a_change_is_not_kept_for_after_it(
    cache: RAGCache, world: World
) -> None:
    assert await cache.get("pump", world.store.slug) is None
    await sync_to_async(disable)(world)
    await cache.set("pump", world.store.slug, None, FOUND)
    assert await cache.get("pump", world.store.slug) is None


async def test_invalidating_a_project_leaves_the_others(cache: RAGCache, world: World) -> None:
    other = await sync_to_async(make_world)()
    theirs = RAGCache(scope=other.scope)
    mine = RAGCache(scope=world.scope)
    await fetch(theirs, other.store.slug)
    await fetch(mine, world.store.slug)
    await mine.invalidate_project(world.store.slug)
    assert await mine.get("pump", world.store.slug) is None
    assert await theirs.get("pump", other.store.slug) == FOUND


async def test_its_time_is_the_shorter_of_both(world: World) -> None:
    await fetch(RAGCache(ttl_seconds=0, scope=world.scope), world.store.slug)
    cache = RAGCache(scope=world.scope)
    assert cache.ttl == 3600
    assert await cache.get("pump", world.store.slug) is None
    await sync_to_async(models.Store.objects.update)(cache_ttl_s=0)
    await cache.set("pump", world.store.slug, None, FOUND)
    assert await cache.get("pump", world.store.slug) is None


def test_callers_that_are_not_async_use_it_too(cache: RAGCache, world: World) -> None:
    assert async_to_sync(fetch)(cache, world.store.slug) is None
    disable(world)
    assert async_to_sync(cache.get)("pump", world.store.slug) is None
    disable(world)
    # The question was asked before the change, in this thread.
    async_to_sync(cache.set)("pump", world.store.slug, None, FOUND)
    assert async_to_sync(cache.get)("pump", world.store.slug) is None


async def test_a_client_of_one_s_own_is_shared_by_all_who_have_it(
    world: World, server: OwnValkey
) -> None:
    url = f"{server.url}?socket_timeout=5"
    await fetch(RAGCache(connect(url), 60, scope=world.scope), world.store.slug)
    other = RAGCache(connect(url), 60, scope=world.scope)
    assert await other.get("pump", world.store.slug) == FOUND
    assert await RAGCache(scope=world.scope).get("pump", world.store.slug) is None
    counters = await sync_to_async(other.counters)()
    assert counters["process"] == {"hits": 1, "misses": 0, "bypasses": 0, "errors": 0}
    assert counters["all"] is not None
    assert counters["all"]["hits"] == 1


async def test_counters_tell_what_happened(cache: RAGCache, world: World) -> None:
    for _ in range(3):
        await fetch(cache, world.store.slug)
    await sync_to_async(models.Store.objects.update)(cache_ttl_s=0)
    await cache.get("pump", world.store.slug)
    assert cache.counters() == {
        "process": {"hits": 2, "misses": 1, "bypasses": 1, "errors": 0},
        "all": None,
    }


class CountingEmbedder(WordsEmbedder):
    """Remembers what it was asked."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.asked: list[str] = []

    def embed_query(self, text: str) -> Any:
        self.asked.append(text)
        return super().embed_query(text)


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> CountingEmbedder:
    forget_cached()
    embedder = CountingEmbedder(64)
    monkeypatch.setattr(wiring, "embedder_of", lambda space_id: embedder)
    return embedder


def test_a_question_is_embedded_once_and_comes_back_bit_for_bit(
    embedder: CountingEmbedder,
) -> None:
    fresh, kept = (embed_query(space_id=1, query="pump 水泵") for _ in range(2))
    assert embedder.asked == ["pump 水泵"]
    assert kept.dtype == np.float32
    assert kept.shape == (64,)
    assert kept.tobytes() == fresh.tobytes()


def test_a_vector_that_its_caller_changes_is_nobody_else_s(embedder: CountingEmbedder) -> None:
    first = embed_query(space_id=1, query="pump").copy()
    for _ in range(2):
        embed_query(space_id=1, query="pump")[:] = 0
    assert np.array_equal(embed_query(space_id=1, query="pump"), first)


@pytest.mark.parametrize("other", ["pump ", "Pump", "ｐｕｍｐ", "pumps"])
def test_a_text_is_not_another_one(other: str, embedder: CountingEmbedder) -> None:
    embed_query(space_id=1, query="pump")
    embed_query(space_id=1, query=other)
    assert embedder.asked == ["pump", other]


@pytest.mark.parametrize(("part", "value"), [("version", "2"), ("id", "words:x"), ("dim", 32)])
def test_another_model_has_vectors_of_its_own(
    part: str, value: Any, embedder: CountingEmbedder
) -> None:
    embed_query(space_id=1, query="pump")
    setattr(embedder, part, value)
    embed_query(space_id=1, query="pump")
    assert embedder.asked == ["pump", "pump"]


def test_spaces_of_one_model_share_its_vectors(embedder: CountingEmbedder) -> None:
    embed_query(space_id=1, query="pump")
    embed_query(space_id=2, query="pump")
    assert embedder.asked == ["pump"]


def test_vectors_crowd_no_results_out(embedder: CountingEmbedder) -> None:
    place = cache_region("results")
    place.keep("kept", b"value", 60)
    for number in range(300):
        embed_query(space_id=1, query=f"question {number}")
    assert place.find("kept") == b"value"
    assert cache_region("vectors").own()["misses"] == 300

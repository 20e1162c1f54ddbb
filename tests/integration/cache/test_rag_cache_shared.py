"""The search's cache in a real server: shared, besieged, damaged, frozen, killed and brought back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections
from redis import Redis

from rag import models
from rag.core.errors import ProviderError
from rag.providers.cache import sealed_cache
from rag.providers.postgres.db.connections import release_db
from rag.services.search import result_cache as module
from rag.services.search import retrieval
from rag.services.search.result_cache import cache_region
from rag.services.search.retrieval import RetrievalRequest, retrieve
from tests.edges.admin_client import use_words_embedder
from tests.factories import StoreFactory
from tests.fakes.valkey_server import OwnValkey
from tests.forked_processes import run_python
from tests.integration.cache_world import QUERY, World, forget_cached, is_cached, make_world, plain

pytestmark = pytest.mark.django_db(transaction=True)
N_AT_ONCE = 50
FIND = retrieval._retrieve_fresh


@pytest.fixture(scope="module")
def running() -> Iterator[OwnValkey]:
    with OwnValkey() as server:
        yield server


@pytest.fixture
def server(running: OwnValkey) -> Iterator[OwnValkey]:
    running.start()
    running.client().flushall()
    yield running
    running.start()


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


@pytest.fixture
def world(server: OwnValkey, settings: Any) -> World:
    # A busy machine may be late by more than a real one; the bench keeps to the real limit.
    url = f"{server.url}?socket_timeout=2&socket_connect_timeout=2"
    settings.RAG = {**settings.RAG, "REDIS_URL": url}
    return make_world()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return when searches began; each takes a while."""
    begun: list[float] = []

    def slow(request: RetrievalRequest) -> Any:
        begun.append(time.monotonic())
        time.sleep(0.15)
        return FIND(request)

    monkeypatch.setattr(retrieval, "_retrieve_fresh", slow)
    return begun


def besiege(world: World, n: int = N_AT_ONCE) -> list[Any]:
    """Return what as many threads find that ask at once."""
    gate = threading.Barrier(n)

    def ask(_: int) -> Any:
        gate.wait(20)
        try:
            return world.find()
        except ProviderError as error:
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(ask, range(n)))


def results_in(client: Redis) -> list[str]:
    names = [name.decode() for name in client.keys("citable:*:results:*")]
    return [name for name in names if not name.endswith("counters")]


def test_another_process_finds_what_this_one_did(world: World, server: OwnValkey) -> None:
    first = world.find()
    forget_cached()
    second = world.find()
    assert is_cached(second)
    assert plain(second) == plain(first)


def test_names_and_values_do_not_tell_the_question(world: World, server: OwnValkey) -> None:
    world.find("confidential question about pumps")
    client = server.client()
    names = client.keys("*")
    assert names
    told = b" ".join([*names, *(client.dump(name) for name in names)])
    assert b"confidential" not in told


def test_values_end_with_their_store_s_time(world: World, server: OwnValkey) -> None:
    other = StoreFactory(cache_ttl_s=7, is_public=True)
    retrieve(query=QUERY, scope=world.scope, stores=[world.fresh_store(), other], purpose="answer")
    (name,) = results_in(server.client())
    assert 5 <= server.client().ttl(name) <= 7


def test_what_is_over_is_looked_for_anew(world: World) -> None:
    models.Store.objects.filter(pk=world.store.pk).update(cache_ttl_s=1)
    assert is_cached((world.find(), world.find())[1])
    time.sleep(1.1)
    assert not is_cached(world.find())


def test_of_fifty_who_ask_at_once_one_searches(world: World, counted: list[float]) -> None:
    found = besiege(world)
    assert len(counted) == 1
    assert len({repr(plain(result)) for result in found}) == 1
    assert [is_cached(result) for result in found].count(False) == 1
    own = cache_region("results").own()
    assert own == {"hits": N_AT_ONCE - 1, "misses": 1, "bypasses": 0, "errors": 0}


def test_those_who_wait_hold_no_connection(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """More ask than there are connections; who waits must not keep one from who works."""
    assert connection.settings_dict["OPTIONS"]["pool"]["max_size"] < N_AT_ONCE

    def remote(request: RetrievalRequest) -> Any:
        # As before a call of a model far away.
        release_db()
        time.sleep(0.3)
        return FIND(request)

    monkeypatch.setattr(retrieval, "_retrieve_fresh", remote)
    begun = time.monotonic()
    assert all(result.hits for result in besiege(world))
    assert time.monotonic() - begun < sealed_cache.WAIT_S


def test_a_search_that_fails_fails_for_whoever_made_it_and_blocks_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def fail_first(request: RetrievalRequest) -> Any:
        calls.append(1)
        if len(calls) == 1:
            time.sleep(0.1)
            raise ProviderError("down")
        return FIND(request)

    monkeypatch.setattr(retrieval, "_retrieve_fresh", fail_first)
    found = besiege(world, 8)
    assert sum(isinstance(result, ProviderError) for result in found) == 1
    assert sum(bool(getattr(result, "hits", ())) for result in found) == 7
    assert is_cached(world.find())


def test_two_processes_that_ask_at_once_search_once(world: World, counted: list[float]) -> None:
    """Two sets of caches stand for two processes: all they share is the server."""
    one = cache_region("results")
    forget_cached()
    two = cache_region("results")
    places = iter([one, two])
    local = threading.local()

    def place(kind: str) -> sealed_cache.SealedCache:
        if not hasattr(local, "place"):
            local.place = next(places)
        return local.place

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "cache_region", place)
        found = besiege(world, 2)
    assert len(counted) == 1
    assert plain(found[0]) == plain(found[1])


def test_a_leader_that_died_keeps_nobody_waiting_long(world: World) -> None:
    key = module.retrieval_key(
        QUERY, world.scope, [world.store], world.store.retrieval_settings, None
    )
    assert key
    place = cache_region("results")
    # The lease of a process that was killed while it searched.
    place.add(f"{place.seal.name(key.payload)}:lease", b"1", sealed_cache.LEASE_S)
    begun = time.monotonic()
    assert world.find().hits
    assert time.monotonic() - begun < sealed_cache.LEASE_S + 1
    assert is_cached(world.find())


@pytest.mark.parametrize(
    "garbage", [b"", b"x", b"\x80\x04N.", b'{"hits": []}', b"0" * 100_000, bytes(range(256))]
)
def test_garbage_in_the_server_is_a_miss(garbage: bytes, world: World, server: OwnValkey) -> None:
    before = world.find()
    (name,) = results_in(server.client())
    server.client().set(name, garbage)
    forget_cached()
    after = world.find()
    assert not is_cached(after)
    assert plain(after) == plain(before)
    assert cache_region("results").own()["errors"] == 1
    assert is_cached(world.find())


def test_any_bit_that_is_turned_is_a_miss(world: World, server: OwnValkey) -> None:
    world.find()
    client = server.client()
    (name,) = results_in(client)
    value = client.get(name)
    assert isinstance(value, bytes)
    for place in range(0, len(value), max(1, len(value) // 25)):
        client.set(name, value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :])
        forget_cached()
        assert not is_cached(world.find())


def test_what_was_found_for_one_does_not_open_for_another(world: World, server: OwnValkey) -> None:
    """Somebody who writes to the server puts an insider's result under another's name."""
    client = server.client()
    insider = world.find()
    (name,) = results_in(client)
    value = client.get(name)
    assert isinstance(value, bytes)
    outsider = cache_region("results").seal.name(b"another's question")
    client.set(outsider, value)
    assert cache_region("results").find(outsider) is None
    assert insider.hits


def test_an_installation_with_another_secret_sees_nothing(world: World, settings: Any) -> None:
    world.find()
    settings.SECRET_KEY = "another"
    forget_cached()
    assert not is_cached(world.find())


@pytest.mark.parametrize("how", ["kill", "freeze", "flush"])
def test_a_server_that_is_gone_changes_no_result(
    how: str, world: World, server: OwnValkey, settings: Any
) -> None:
    settings.RAG = {**settings.RAG, "REDIS_URL": server.url}
    forget_cached()
    before = world.find()
    if how == "flush":
        server.client().flushall()
    else:
        getattr(server, how)()
    assert is_cached(world.find())
    assert plain(world.find("blue valve")) == plain(world.find_anew("blue valve"))
    models.Chunk.objects.filter(file=world.open_file).update(enabled=False)
    after = world.find()
    assert plain(after) == plain(world.find_anew()) != plain(before)
    assert is_cached(world.find())
    server.start()
    assert is_cached(world.find())


def test_a_change_by_a_process_without_the_server_is_seen_by_all(
    world: World, server: OwnValkey
) -> None:
    world.find()
    script = (
        "import django; django.setup()\n"
        "from rag import models\n"
        f"models.Chunk.objects.filter(file={world.open_file.pk}).update(enabled=False)"
    )
    environment = {
        "DATABASE_URL": _database_url(),
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "CITABLE_VAR": str(_var()),
        "PATH": "",
    }
    done = run_python("-c", script, env=environment)
    assert done.returncode == 0, done.stderr
    after = world.find()
    assert not is_cached(after)
    assert {hit.file_name for hit in after.hits} == {"b.txt"}


def _var() -> Any:
    from django.conf import settings

    return settings.VAR_DIR


def _database_url() -> str:
    place = connection.get_connection_params()
    return (
        f"postgres://{place['user']}@/{place['dbname']}?host={place['host']}&port={place['port']}"
    )

"""The caches against their contract, and what a real server's death, freeze and loss do to them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from rag.core.errors import ConfigurationError, ProviderError
from rag.core.ports import Cache
from rag.providers.cache import redis_cache
from rag.providers.cache.memory_cache import MemoryCache
from rag.providers.cache.redis_cache import TIMEOUT_S, CircuitBreaker, RedisCache, connect
from rag.providers.cache.sealed_cache import Seal, SealedCache
from tests.contract_cache import CacheContract
from tests.contracts import at_once
from tests.fakes.valkey_server import OwnValkey

# A busy machine may be late by some milliseconds; the bench measures it on a quiet one.
LATE_S = 0.1


@pytest.fixture(scope="module")
def running() -> Iterator[OwnValkey]:
    with OwnValkey() as server:
        yield server


@pytest.fixture
def server(running: OwnValkey) -> Iterator[OwnValkey]:
    """A server that runs before each test, whatever the last one did to it."""
    running.start()
    yield running
    running.start()


def memory() -> MemoryCache:
    return MemoryCache(max_items=10_000, max_bytes=50_000_000)


def patient(server: OwnValkey) -> RedisCache:
    """A cache in the server that is not in a hurry, so that a busy machine fails no contract."""
    return RedisCache(connect(f"{server.url}?socket_timeout=5&socket_connect_timeout=5"))


def sealed(far: RedisCache | None = None, purpose: str = "test") -> SealedCache:
    return SealedCache(memory(), far, seal=Seal("secret", purpose))


class TestMemoryCache(CacheContract):
    @pytest.fixture
    def cache(self) -> Cache:
        return memory()


class TestRedisCache(CacheContract):
    @pytest.fixture
    def cache(self, server: OwnValkey) -> RedisCache:  # type: ignore[override]
        return patient(server)


class TestSealedCache(CacheContract):
    @pytest.fixture
    def cache(self, server: OwnValkey) -> Cache:
        return sealed(patient(server))


class TestSealedCacheAlone(CacheContract):
    @pytest.fixture
    def cache(self) -> Cache:
        return sealed()


class TestSealedCacheWithADeadServer(CacheContract):
    @pytest.fixture
    def cache(self) -> Cache:
        return sealed(RedisCache(connect("redis://127.0.0.1:9/0")))


class Watched:
    """A sealed cache with its clock in hand."""

    def __init__(self, server: OwnValkey) -> None:
        self.now = 0.0
        breaker = CircuitBreaker(open_s=10, clock=lambda: self.now)
        self.cache = sealed(RedisCache(connect(server.url), breaker), str(uuid4()))

    @property
    def n_failures(self) -> int:
        return self.cache.own()["errors"]


@pytest.fixture
def watched(server: OwnValkey) -> Watched:
    found = Watched(server)
    found.cache.set("warm", b"up", 60)
    return found


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def test_what_one_process_sets_another_finds(server: OwnValkey) -> None:
    name = f"test:{uuid4()}"
    sealed(patient(server)).set(name, b"value", 60)
    other = sealed(patient(server))
    assert other.is_shared
    assert other.get(name) == b"value"


def test_a_copy_ends_with_its_original(server: OwnValkey) -> None:
    name = f"test:{uuid4()}"
    sealed(patient(server)).set(name, b"value", 0.4)
    other = sealed(patient(server))
    assert other.get(name) == b"value"
    time.sleep(0.5)
    assert other.get(name) is None


def test_a_value_of_another_type_is_a_failure_and_a_miss(
    server: OwnValkey, watched: Watched
) -> None:
    name = f"test:{uuid4()}"
    server.client().rpush(name, "a list")
    assert watched.cache.get(name) is None
    assert watched.n_failures == 1


@pytest.mark.parametrize("how", ["freeze", "kill"])
def test_after_the_first_failure_nobody_waits(
    how: str, server: OwnValkey, watched: Watched
) -> None:
    getattr(server, how)()
    assert seconds(lambda: watched.cache.get("a")) < TIMEOUT_S + LATE_S
    assert not watched.cache.is_shared
    times = [seconds(lambda: watched.cache.get("a")) for _ in range(200)]
    assert sum(times) < LATE_S
    assert watched.n_failures == 1
    watched.cache.set("b", b"kept here", 60)
    assert watched.cache.get("b") == b"kept here"
    assert watched.cache.add("c", b"1", 60)
    watched.cache.delete("c")
    watched.cache.count("hits")
    assert watched.cache.totals() is None


def test_who_is_under_way_when_it_freezes_waits_for_one_timeout(
    server: OwnValkey, watched: Watched
) -> None:
    at_once(watched.cache.get, [f"cold{i}" for i in range(64)], n_threads=16)
    server.freeze()
    times = at_once(lambda i: seconds(lambda: watched.cache.get(f"x{i}")), range(64), n_threads=16)
    assert max(times) < TIMEOUT_S + 2 * LATE_S
    assert 1 <= watched.n_failures <= 16


@pytest.mark.parametrize("how", ["freeze", "kill"])
def test_it_is_found_again_when_it_is_back(how: str, server: OwnValkey, watched: Watched) -> None:
    getattr(server, how)()
    watched.cache.get("a")
    server.start()
    assert not watched.cache.is_shared
    watched.now = 10.5
    watched.cache.set("d", b"shared again", 60)
    assert watched.cache.is_shared
    assert patient(server).get("d") == b"shared again"


def test_a_server_that_is_still_away_is_asked_once_in_ten_seconds(
    server: OwnValkey, watched: Watched
) -> None:
    server.kill()
    for watched.now in range(100):
        for _ in range(5):
            watched.cache.get("a")
    assert watched.n_failures == 10


def test_a_flush_is_a_miss_and_what_this_process_has_stays(
    server: OwnValkey, watched: Watched
) -> None:
    server.client().flushall()
    assert watched.cache.get("warm") == b"up"
    assert patient(server).get("warm") is None
    assert watched.n_failures == 0


def test_a_server_without_room_is_a_failure_and_no_error(
    server: OwnValkey, watched: Watched
) -> None:
    admin = server.client()
    admin.config_set("maxmemory", "1")
    try:
        watched.cache.set("big", b"x" * 1000, 60)
    finally:
        admin.config_set("maxmemory", "0")
    assert watched.n_failures == 1
    assert watched.cache.get("big") == b"x" * 1000


def test_what_answers_but_is_no_redis_is_a_failure(watched: Watched) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(100)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        cache = RedisCache(connect(f"redis://127.0.0.1:{listener.getsockname()[1]}"))
        with pytest.raises(ProviderError, match="The cache in Redis failed"):
            cache.get("a")


@pytest.mark.parametrize("url", ["http://x", "redis", "redis://host:port/0", "memcached://a"])
def test_what_is_no_address_is_told(url: str) -> None:
    with pytest.raises(ConfigurationError, match="REDIS_URL is no address"):
        connect(url)


def test_a_name_is_looked_up_and_remembered(server: OwnValkey) -> None:
    url = server.url.replace("127.0.0.1", "localhost") + "?socket_timeout=5"
    cache = RedisCache(connect(f"{url}&socket_connect_timeout=5"))
    cache.set("named", b"1", 60)
    assert cache.get("named") == b"1"
    assert "127.0.0.1" in redis_cache._ADDRESSES["localhost"]


def test_nobody_waits_for_a_name_server_that_is_silent(
    server: OwnValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, is_told = socket.getaddrinfo, threading.Event()
    wanted = f"redis-{uuid4().hex[:8]}.invalid"

    def look_up(name: str, *rest: object, **more: object) -> list[object]:
        if name != wanted:
            return real(name, *rest, **more)  # type: ignore[arg-type, return-value]
        is_told.wait(20)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    cache = RedisCache(connect(f"redis://{wanted}:{server.port}/0?socket_timeout=5"))

    def ask() -> None:
        with pytest.raises(ProviderError, match="is known yet"):
            cache.get("a")

    assert seconds(ask) < TIMEOUT_S + LATE_S
    is_told.set()
    until = time.monotonic() + 5
    while wanted not in redis_cache._ADDRESSES and time.monotonic() < until:
        time.sleep(0.01)
    # What it said late is known from now on, silent as it may be again.
    is_told.clear()
    assert seconds(lambda: cache.set("a", b"1", 60)) < TIMEOUT_S + LATE_S
    assert cache.get("a") == b"1"
    is_told.set()


def test_counters_of_all_processes_add_up(server: OwnValkey) -> None:
    purpose = str(uuid4())
    one, two = (sealed(patient(server), purpose) for _ in range(2))
    for event in ("hits", "hits", "misses"):
        one.count(event)
    two.count("errors")
    one.totals()
    assert two.totals() == {"hits": 2, "misses": 1, "bypasses": 0, "errors": 1}
    assert one.totals() == two.totals()
    assert two.own() == {"hits": 0, "misses": 0, "bypasses": 0, "errors": 1}


def test_counts_that_could_not_be_sent_are_sent_later(server: OwnValkey, watched: Watched) -> None:
    server.kill()
    watched.cache.count("hits")
    assert watched.cache.totals() is None
    server.start()
    watched.now = 11
    found = watched.cache.totals()
    assert found is not None
    assert found["hits"] == 1


def test_counts_are_sent_now_and_then_not_each_time(server: OwnValkey) -> None:
    cache = sealed(patient(server), str(uuid4()))
    for _ in range(100):
        cache.count("hits")
    assert server.client().hgetall(f"{cache.seal.prefix}counters") == {b"hits": b"1"}

"""Bounds of the process's own cache: entries, bytes, time; and whom it lets go first."""

from __future__ import annotations

import os
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from rag.providers.cache.memory_cache import MemoryCache
from rag.providers.cache.redis_cache import CircuitBreaker


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_was_asked_for_longest_ago_goes_first() -> None:
    cache = MemoryCache(max_items=2, max_bytes=10_000)
    cache.set("a", b"1", 60)
    cache.set("b", b"2", 60)
    assert cache.get("a") == b"1"
    cache.set("c", b"3", 60)
    assert [cache.get(name) for name in "abc"] == [b"1", None, b"3"]


def test_a_hundred_thousand_names_stay_within_their_bounds() -> None:
    cache = MemoryCache(max_items=10_000, max_bytes=4_000_000)
    tracemalloc.start()
    try:
        for number in range(100_000):
            cache.set(f"citable:0123456789ab:results:{number:040d}", number.to_bytes(4) * 50, 3600)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cache.n_bytes <= 4_000_000
    assert 5_000 < len(cache) <= 10_000
    # What it counts is what Python takes, within a fifth.
    assert 0.8 * cache.n_bytes < taken < 1.2 * 4_000_000


def test_a_value_that_would_crowd_out_the_rest_is_not_kept() -> None:
    cache = MemoryCache(max_items=10, max_bytes=80_000)
    cache.set("small", b"1", 60)
    cache.set("large", b"x" * 10_000, 60)
    assert cache.get("large") is None
    assert cache.get("small") == b"1"


def test_time_is_the_clock_s() -> None:
    clock = Clock()
    cache = MemoryCache(max_items=10, max_bytes=10_000, clock=clock)
    cache.set("a", b"1", 10)
    clock.now = 9.99
    assert cache.get("a") == b"1"
    clock.now = 10
    assert cache.get("a") is None
    assert (len(cache), cache.n_bytes) == (0, 0)


def test_clearing_leaves_nothing() -> None:
    cache = MemoryCache(max_items=10, max_bytes=10_000)
    cache.set("a", b"1", 60)
    cache.clear()
    assert (len(cache), cache.n_bytes, cache.get("a")) == (0, 0, None)


def test_a_lock_that_is_held_at_a_fork_is_free_in_the_child() -> None:
    cache = MemoryCache(max_items=10, max_bytes=10_000)
    cache.set("a", b"1", 60)
    with cache._lock:
        child = os.fork()
        if not child:
            os._exit(0 if cache.get("a") == b"1" else 1)
    assert os.waitpid(child, 0)[1] == 0


deeds = st.lists(
    st.tuples(
        st.sampled_from("gsad"),
        st.sampled_from("abcdef"),
        st.binary(max_size=300),
        st.integers(0, 3),
    )
)


@given(deeds)
def test_it_answers_as_a_dict_would_or_not_at_all(deeds: list[tuple[str, str, bytes, int]]) -> None:
    clock, truth = Clock(), {}
    cache = MemoryCache(max_items=4, max_bytes=3000, clock=clock)
    for deed, name, value, number in deeds:
        clock.now += 1
        expected = truth.get(name)
        if expected and expected[1] <= clock.now:
            expected = None
        found = cache.get(name)
        assert found is None or (expected is not None and found == expected[0])
        if deed == "s":
            cache.set(name, value, number)
            truth[name] = (value, clock.now + number)
        elif deed == "a" and cache.add(name, value, number):
            truth[name] = (value, clock.now + number)
        elif deed == "d":
            cache.delete(name)
            truth.pop(name, None)
        assert len(cache) <= 4
        assert cache.n_bytes <= 3000
        assert (cache.n_bytes == 0) == (len(cache) == 0)


def test_a_breaker_opens_at_the_first_failure_and_closes_at_a_success() -> None:
    clock = Clock()
    breaker = CircuitBreaker(open_s=10, clock=clock)
    assert breaker.allows()
    assert breaker.failed()
    assert breaker.is_open
    assert not breaker.allows()
    clock.now = 9.9
    assert not breaker.allows()
    clock.now = 10
    assert breaker.allows()
    assert breaker.succeeded()
    assert breaker.allows()
    assert not breaker.is_open
    assert not breaker.succeeded()


def test_only_one_probe_goes_out_at_a_time() -> None:
    clock = Clock()
    breaker = CircuitBreaker(open_s=10, clock=clock)
    breaker.failed()
    clock.now = 11
    assert [breaker.allows() for _ in range(5)] == [True, False, False, False, False]
    assert not breaker.failed()
    clock.now = 20
    assert not breaker.allows()
    clock.now = 21
    assert breaker.allows()


def test_a_probe_that_never_came_back_is_followed_by_another() -> None:
    clock = Clock()
    breaker = CircuitBreaker(open_s=10, clock=clock)
    breaker.failed()
    clock.now = 10
    assert breaker.allows()
    clock.now = 20
    assert breaker.allows()

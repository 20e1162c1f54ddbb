"""One works while others wait; nobody waits for ever, whatever becomes of the one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rag.providers.cache import sealed_cache
from rag.providers.cache.memory_cache import MemoryCache
from rag.providers.cache.sealed_cache import SingleFlight


class SharedMemory(MemoryCache):
    """A cache that two flights share as two processes would share a server."""

    is_shared = True


def memory() -> MemoryCache:
    return MemoryCache(max_items=1000, max_bytes=1_000_000)


def shared() -> SharedMemory:
    return SharedMemory(max_items=1000, max_bytes=1_000_000)


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """Return what the calls, begun together, return or raise."""
    gate = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        gate.wait(10)
        try:
            return call()
        except ValueError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


class Work:
    """Takes a while, counts, and keeps what it made."""

    def __init__(self, cache: MemoryCache, takes_s: float = 0.05) -> None:
        self.cache, self.takes_s, self.n = cache, takes_s, 0

    def __call__(self) -> bytes:
        self.n += 1
        time.sleep(self.takes_s)
        self.cache.set("a", b"made", 60)
        return b"made"

    def find(self) -> bytes | None:
        return self.cache.get("a")


def test_one_of_many_works_and_all_have_its_value() -> None:
    work = Work(memory())
    flight = SingleFlight(work.cache)
    found = at_once([lambda: flight.run("a", work.find, work)] * 40)
    assert work.n == 1
    assert sorted(found) == [(b"made", False), *[(b"made", True)] * 39]


def test_names_do_not_wait_for_each_other() -> None:
    cache = memory()
    flight = SingleFlight(cache)
    slow, quick = Work(cache, 0.5), Work(memory(), 0.0)
    times: list[float] = []

    def other() -> None:
        time.sleep(0.05)
        begun = time.monotonic()
        flight.run("b", lambda: None, quick)
        times.append(time.monotonic() - begun)

    at_once([lambda: flight.run("a", slow.find, slow), other])
    assert times[0] < 0.3


def test_who_comes_just_after_the_landing_finds_it_instead_of_working() -> None:
    work = Work(memory())
    flight = SingleFlight(work.cache)
    work()
    assert flight.run("a", work.find, work) == (b"made", True)
    assert work.n == 1


def test_an_error_is_its_own_caller_s_and_the_others_work_for_themselves() -> None:
    flight, calls = SingleFlight(memory()), []

    def fail_first() -> bytes:
        calls.append(1)
        if len(calls) == 1:
            time.sleep(0.1)
            raise ValueError("no")
        return b"made"

    found = at_once([lambda: flight.run("a", lambda: None, fail_first)] * 4)
    assert sum(isinstance(one, ValueError) for one in found) == 1
    assert found.count((b"made", False)) == 3
    assert flight._flights == {}


def test_who_has_waited_long_enough_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_cache, "WAIT_S", 0.1)
    cache, never = memory(), threading.Event()
    flight = SingleFlight(cache)

    def hang() -> bytes:
        never.wait(10)
        return b"late"

    leader = threading.Thread(target=lambda: flight.run("a", lambda: None, hang))
    leader.start()
    time.sleep(0.05)
    begun = time.monotonic()
    assert flight.run("a", lambda: None, lambda: b"own") == (b"own", False)
    assert time.monotonic() - begun < 1
    never.set()
    leader.join(10)


def test_whoever_waits_lets_go_first_and_who_works_does_not() -> None:
    let_go: list[str] = []
    work = Work(memory(), 0.2)
    flight = SingleFlight(
        work.cache, before_wait=lambda: let_go.append(threading.current_thread().name)
    )
    at_once([lambda: flight.run("a", work.find, work)] * 5)
    assert len(let_go) == 4


def test_processes_that_share_a_cache_work_once() -> None:
    work = Work(shared(), 0.1)
    flights = [SingleFlight(work.cache) for _ in range(4)]
    found = at_once([lambda f=flight: f.run("a", work.find, work) for flight in flights])
    assert work.n == 1
    assert sorted(found) == [(b"made", False), *[(b"made", True)] * 3]
    assert work.cache.get("a:lease") is None


def test_processes_that_share_nothing_do_not_wait_for_each_other() -> None:
    works = [Work(memory()) for _ in range(3)]
    flights = [SingleFlight(work.cache) for work in works]
    pairs = zip(flights, works, strict=True)
    at_once([lambda f=flight, w=work: f.run("a", w.find, w) for flight, work in pairs])
    assert [work.n for work in works] == [1, 1, 1]


def test_the_lease_of_a_process_that_died_ends_by_itself() -> None:
    work = Work(shared(), 0.0)
    work.cache.set("a:lease", b"1", sealed_cache.LEASE_S)
    begun = time.monotonic()
    assert SingleFlight(work.cache).run("a", work.find, work) == (b"made", False)
    assert time.monotonic() - begun < sealed_cache.LEASE_S + 0.5


def test_a_process_that_is_slow_is_not_waited_for_longer_than_a_lease() -> None:
    work = Work(shared(), 0.0)
    work.cache.set("a:lease", b"1", 60)
    begun = time.monotonic()
    assert SingleFlight(work.cache).run("a", work.find, work) == (b"made", False)
    assert sealed_cache.LEASE_S <= time.monotonic() - begun < sealed_cache.LEASE_S + 0.5
    assert work.cache.get("a:lease") == b"1"


def test_the_lease_of_a_process_that_failed_is_free_at_once() -> None:
    cache = shared()

    def fail() -> bytes:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        SingleFlight(cache).run("a", lambda: None, fail)
    assert cache.get("a:lease") is None

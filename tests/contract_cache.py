"""What every cache keeps to. Subclass it, give it a cache, and the suite holds it to that."""

from __future__ import annotations

import threading
import time
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.core.ports import Cache
from tests.contracts import at_once

_inherited = settings(
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.function_scoped_fixture],
    max_examples=40,
)


class CacheContract:
    """The Cache port. Set the fixture ``cache``."""

    @pytest.fixture
    def cache(self) -> Cache:
        raise NotImplementedError

    @pytest.fixture
    def name(self) -> str:
        """A name that nobody else has."""
        return f"test:{uuid4()}"

    def test_what_was_never_set_is_none(self, cache: Cache, name: str) -> None:
        assert cache.get(name) is None

    def test_what_was_set_is_there(self, cache: Cache, name: str) -> None:
        cache.set(name, b"value", 60)
        assert cache.get(name) == b"value"

    def test_names_do_not_mix(self, cache: Cache, name: str) -> None:
        cache.set(name, b"one", 60)
        cache.set(f"{name}x", b"two", 60)
        assert [cache.get(name), cache.get(f"{name}x")] == [b"one", b"two"]

    def test_setting_again_replaces(self, cache: Cache, name: str) -> None:
        cache.set(name, b"old", 60)
        cache.set(name, b"new", 60)
        assert cache.get(name) == b"new"

    def test_it_ends_when_its_time_is_over(self, cache: Cache, name: str) -> None:
        cache.set(name, b"value", 0.15)
        assert cache.get(name) == b"value"
        time.sleep(0.25)
        assert cache.get(name) is None

    def test_reading_does_not_prolong(self, cache: Cache, name: str) -> None:
        cache.set(name, b"value", 0.3)
        until = time.monotonic() + 0.45
        while time.monotonic() < until:
            cache.get(name)
            time.sleep(0.02)
        assert cache.get(name) is None

    @pytest.mark.parametrize("ttl_s", [0, -1.0, 0.0])
    def test_no_time_keeps_nothing_and_what_was_there_is_gone(
        self, ttl_s: float, cache: Cache, name: str
    ) -> None:
        cache.set(name, b"old", 60)
        cache.set(name, b"new", ttl_s)
        assert cache.get(name) is None

    def test_adding_takes_a_free_name_only(self, cache: Cache, name: str) -> None:
        assert cache.add(name, b"first", 60)
        assert not cache.add(name, b"second", 60)
        assert cache.get(name) == b"first"

    def test_an_added_name_is_free_again_after_its_time(self, cache: Cache, name: str) -> None:
        assert cache.add(name, b"first", 0.1)
        time.sleep(0.2)
        assert cache.add(name, b"second", 60)
        assert cache.get(name) == b"second"

    def test_of_many_who_add_at_once_one_succeeds(self, cache: Cache, name: str) -> None:
        added = at_once(lambda i: cache.add(name, b"%d" % i, 60), range(32), n_threads=8)
        assert added.count(True) == 1
        assert cache.get(name) == b"%d" % added.index(True)

    def test_what_is_deleted_is_gone(self, cache: Cache, name: str) -> None:
        cache.set(name, b"value", 60)
        cache.delete(name)
        assert cache.get(name) is None
        assert cache.add(name, b"other", 60)

    def test_deleting_nothing_is_nothing(self, cache: Cache, name: str) -> None:
        cache.delete(name)
        assert cache.get(name) is None

    @given(value=st.binary(max_size=3000))
    @_inherited
    def test_any_bytes_come_back(self, cache: Cache, value: bytes) -> None:
        name = f"test:{uuid4()}"
        cache.set(name, value, 60)
        assert cache.get(name) == value

    def test_a_large_value_comes_back(self, cache: Cache, name: str) -> None:
        value = bytes(range(256)) * 2000
        cache.set(name, value, 60)
        assert cache.get(name) == value

    def test_threads_find_what_they_set(self, cache: Cache, name: str) -> None:
        lost: list[int] = []

        def work(number: int) -> None:
            for i in range(30):
                mine = f"{name}:{number}:{i}"
                cache.set(mine, f"{number} {i}".encode(), 60)
                if cache.get(mine) != f"{number} {i}".encode():
                    lost.append(number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert lost == []

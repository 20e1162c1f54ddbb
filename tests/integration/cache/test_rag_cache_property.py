"""Whatever people do to stores, and whoever asks then: with the cache as without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag import models
from rag.core.access import Scope
from rag.core.types import RetrievalSettings
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.search.generations import compact_generations
from rag.services.access.api_keys import scope_of
from rag.services.search.result_cache import cache_region
from rag.services.search.retrieval import retrieve
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish
from tests.integration.cache_world import forget_cached, plain

pytestmark = pytest.mark.django_db(transaction=True)
WORDS = ("pump", "valve", "water", "manual", "blue", "水泵")
QUERIES = ("pump", "blue valve", "water  pump manual", "水泵", "ＰＵＭＰ")
SETTINGS = (
    None,
    RetrievalSettings(top_k=2),
    RetrievalSettings(mode="keyword", content_types=("m",)),
)


class Desk:
    """Two stores, two users, three groups, and hands that change anything."""

    def __init__(self) -> None:
        self.groups: list[Group] = [GroupFactory() for _ in range(3)]
        self.users = [UserFactory(groups=self.groups[:1]), UserFactory(groups=self.groups[1:])]
        self.stores = [
            StoreFactory(owner=self.users[0], readers=self.groups[1:2]),
            StoreFactory(is_public=True),
        ]
        for number, store in enumerate(self.stores):
            for word in WORDS[number : number + 3]:
                publish(FileFactory(store=store), f"{word} manual", f"the {word} is blue")

    def scopes(self) -> list[Scope]:
        """Return who may ask."""
        return [scope_of(None), Scope.operator(), *(scope_of(user) for user in self.users)]

    def file(self, n: int) -> models.File:
        files = models.File.objects.select_related("store__space").order_by("pk")
        found = list(files)
        return found[n % len(found)] if found else FileFactory(store=self.stores[n % 2])

    def store(self, n: int) -> models.Store:
        return models.Store.objects.get(pk=self.stores[n % 2].pk)


def _toggle(groups: Any, group: Group) -> None:
    if groups.filter(pk=group.pk).exists():
        groups.remove(group)
    else:
        groups.add(group)


def _flip(store: models.Store, **values: Any) -> None:
    models.Store.objects.filter(pk=store.pk).update(**values)


DEEDS: tuple[Callable[[Desk, int], object], ...] = (
    lambda d, n: publish(d.file(n), f"{WORDS[n % 6]} {WORDS[n % 5]}", f"{WORDS[n % 3]} again"),
    lambda d, n: publish(FileFactory(store=d.store(n)), f"new {WORDS[n % 6]}"),
    lambda d, n: models.Chunk.objects.filter(file=d.file(n), ordinal=0).update(enabled=n % 3 > 0),
    lambda d, n: models.Chunk.objects.filter(file=d.file(n), ordinal=0).update(text=f"edit {n}"),
    lambda d, n: d.file(n).delete(),
    lambda d, n: _toggle(d.file(n).restricted_to, d.groups[n % 3]),
    lambda d, n: _toggle(d.store(n).reader_groups, d.groups[n % 3]),
    lambda d, n: _toggle(d.store(n).editor_groups, d.groups[n % 3]),
    lambda d, n: _toggle(d.users[n % 2].groups, d.groups[n % 3]),
    lambda d, n: _flip(d.store(n), is_public=n % 4 < 2),
    lambda d, n: _flip(d.store(n), owner=d.users[n % 2] if n % 3 else None),
    lambda d, n: _flip(d.store(n), retrieval={"top_k": n % 4 + 1}),
    lambda d, n: _flip(d.store(n), cache_ttl_s=0 if n % 5 == 0 else 3600),
    lambda d, n: models.File.objects.filter(pk=d.file(n).pk).update(metadata={"n": n}),
    lambda d, n: models.File.objects.filter(pk=d.file(n).pk).update(content_type="dm"[n % 2]),
    lambda d, n: stats.recount_statistics(d.store(n).pk),
    lambda d, n: compact_generations(),
    lambda d, n: None,
)
Step = tuple[int, int, bool]
steps = st.lists(
    st.tuples(st.integers(0, len(DEEDS) - 1), st.integers(0, 30), st.booleans()),
    min_size=1,
    max_size=12,
)
questions = st.lists(
    st.tuples(st.sampled_from(QUERIES), st.sampled_from(SETTINGS), st.integers(0, 3)),
    min_size=1,
    max_size=3,
)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> Any:
    use_words_embedder(monkeypatch, settings)
    forget_cached()
    desk = Desk()
    yield desk
    for user in desk.users:
        user.groups.clear()


@given(steps=steps, questions=questions, one_store=st.booleans())
@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_cached_search_finds_what_a_fresh_one_finds(
    desk: Desk, steps: list[Step], questions: list[Any], one_store: bool
) -> None:
    for deed, number, is_kept in steps:
        with transaction.atomic():
            DEEDS[deed](desk, number)
            _compare(desk, questions, one_store)
            transaction.set_rollback(not is_kept)
        _compare(desk, questions, one_store)


def _compare(desk: Desk, questions: list[Any], one_store: bool) -> None:
    stores = list(models.Store.objects.filter(pk__in=[s.pk for s in desk.stores]).order_by("pk"))
    scopes = desk.scopes()
    for query, chosen, number in questions:
        values: Any = {
            "query": query,
            "scope": scopes[number],
            "settings": chosen,
            "stores": stores[:1] if one_store else stores,
        }
        assert plain(retrieve(**values, purpose="answer")) == plain(
            retrieve(**values, purpose="evaluation")
        )


def test_the_property_does_meet_cached_results(desk: Desk) -> None:
    for _ in range(3):
        _compare(desk, [(query, chosen, 1) for query in QUERIES for chosen in SETTINGS], False)
    own = cache_region("results").own()
    assert own["hits"] >= 2 * len(QUERIES) * len(SETTINGS)

"""What every search index keeps to: the same hits as Postgres alone, with the same scores.

Subclass it and give it an index; ``settle`` brings the index up to date where it follows Postgres.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import Group

from rag import models
from rag.core.access import Scope
from rag.core.hits import Hit
from rag.core.ports import SearchIndex
from rag.core.types import RetrievalSettings
from rag.providers.postgres.search.index import PostgresIndex
from rag.services.chunks.add import add_chunk, delete_chunks
from rag.services.chunks.edit import edit_chunk
from rag.services.files.edit import set_chunks_enabled
from rag.services.wiring import registry as wiring
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, GroupFactory, SpaceFactory, StoreFactory, publish
from tests.index_hits import index_hits

OPERATOR = Scope.operator()
THINGS = ("pump", "valve", "motor", "sensor", "filter", "gasket")
STATES = ("leaks water", "is too hot", "makes noise", "is stuck")
THINGS_ZH = ("水泵", "阀门", "电机", "传感器", "滤网", "垫圈")
STATES_ZH = ("漏水", "过热", "有异响", "卡住了")
ENGLISH = [
    f"When the {a} {b}, replace part {i}0{i}." for i, (a, b) in enumerate(product(THINGS, STATES))
]
CHINESE = [
    f"如果{a}{b},请更换第{i}号零件。" for i, (a, b) in enumerate(product(THINGS_ZH, STATES_ZH))
]
QUERIES = (
    "the pump leaks water",
    "noise of the motor",
    "replace part 707",
    "gasket",
    "水泵漏水怎么办",
    "更换零件",
    "滤网",
    "水",
    "电机 noise",
)


class World:
    """Two stores in both languages on one space, a third on another one."""

    def __init__(self) -> None:
        self.readers, self.staff = GroupFactory(), GroupFactory()
        space = SpaceFactory()
        self.stores = [StoreFactory(space=space, readers=[self.readers]) for _ in range(2)]
        self.stores.append(
            StoreFactory(space=SpaceFactory(model="words:32", dim=32), readers=[self.readers])
        )
        self.english = [self._file(store, ENGLISH, language="en") for store in self.stores]
        self.chinese = [self._file(store, CHINESE, language="zh") for store in self.stores[:2]]
        self.secret = self._file(self.stores[0], ["The pump of the secret plant leaks water."])
        self.secret.restricted_to.add(self.staff)

    def _file(self, store: models.Store, texts: list[str], language: str = "") -> models.File:
        kind = "manual" if language == "en" else "document"
        file = FileFactory(store=store, metadata={"lang": language}, content_type=kind)
        publish(file, *texts)
        return file

    def reader(self, *groups: Group) -> Scope:
        """Return somebody who may read all stores, and what these groups may."""
        ids = {group.pk for group in (self.readers, *groups)}
        return Scope(user_id=None, group_ids=frozenset(ids))


class SearchIndexContract:
    """The SearchIndex port. Set the fixture ``index``, and ``settle`` where it lags."""

    @pytest.fixture
    def index(self) -> SearchIndex:
        raise NotImplementedError

    def settle(self) -> None:
        """Bring the index up to date with what is committed."""

    @pytest.fixture(autouse=True)
    def _words(self, monkeypatch: Any, settings: Any, fresh_wiring: None) -> None:
        use_words_embedder(monkeypatch, settings)

    @pytest.fixture
    def world(self, index: SearchIndex) -> World:
        made = World()
        self.settle()
        return made

    def ask(
        self,
        index: SearchIndex,
        query: str,
        stores: Sequence[models.Store],
        scope: Scope = OPERATOR,
        **values: Any,
    ) -> list[Hit]:
        """Return the index's hits; they are those of Postgres, ranks and scores included."""
        wanted, found = (
            self._search(one, query, stores, scope, values) for one in (PostgresIndex(), index)
        )
        shown, expected = ([self.shown(hit) for hit in hits] for hits in (found, wanted))
        # Nothing rewrites this module's asserts.
        assert shown == expected, f"{query} {values}: {shown[:3]} is not {expected[:3]}"
        return found

    def _search(
        self,
        index: SearchIndex,
        query: str,
        stores: Sequence[models.Store],
        scope: Scope,
        values: dict[str, Any],
    ) -> list[Hit]:
        stores = list(models.Store.objects.filter(pk__in=[store.pk for store in stores]))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(wiring, "index", lambda: index)
            found = index_hits(
                query=query,
                scope=scope,
                stores=stores,
                settings=RetrievalSettings(**{"top_k": 10, **values}),
            )
        return list(found.hits)

    @staticmethod
    def shown(hit: Hit) -> tuple[Any, ...]:
        """Return what must be equal of a hit; scores to six places."""
        legs = [
            (leg.rank, None if leg.score is None else round(leg.score, 6))
            for leg in (hit.vector, hit.lexical)
        ]
        return hit.chunk_id, hit.rank, round(hit.score or 0, 6), *legs, hit.matched_terms, hit.text

    def test_each_mode_finds_the_same_in_both_languages(
        self, index: SearchIndex, world: World
    ) -> None:
        for mode in ("hybrid", "semantic", "keyword"):
            for query in QUERIES:
                assert self.ask(index, query, world.stores[:1], mode=mode)
            best = self.ask(index, "水泵漏水怎么办", world.stores[:1], mode=mode)[0]
            assert best.text.startswith("如果水泵漏水")

    def test_several_stores_and_spaces_are_searched_as_one(
        self, index: SearchIndex, world: World
    ) -> None:
        for query in QUERIES:
            found = self.ask(index, query, world.stores)
            assert len({hit.store_id for hit in found}) >= 2
        self.ask(index, QUERIES[0], world.stores, fusion="rrf", top_k=30)

    def test_filters_leave_the_same(self, index: SearchIndex, world: World) -> None:
        for query in QUERIES:
            types = self.ask(index, query, world.stores, content_types=("manual",))
            assert {hit.content_type for hit in types} <= {"manual"}
            tagged = self.ask(index, query, world.stores, metadata={"lang": "zh"})
            assert {hit.file_id for hit in tagged} <= {file.pk for file in world.chinese}
        assert self.ask(index, "pump", world.stores, metadata={"lang": "fr"}) == []

    def test_restricted_files_are_found_by_their_groups_alone(
        self, index: SearchIndex, world: World
    ) -> None:
        for scope, is_seen in (
            (world.reader(), False),
            (world.reader(world.staff), True),
            (OPERATOR, True),
        ):
            found = self.ask(index, "pump of the secret plant", world.stores, scope)
            assert (world.secret.pk in {hit.file_id for hit in found}) is is_seen
        assert self.ask(index, "pump", world.stores, Scope.anonymous()) == []

    @pytest.mark.parametrize("is_settled", [True, False])
    def test_what_changes_is_found_as_it_is_at_commit(
        self, index: SearchIndex, world: World, is_settled: bool
    ) -> None:
        store, file = world.stores[0], world.english[0]
        first, second, third = models.Chunk.objects.live().filter(file=file).order_by("ordinal")[:3]
        edit_chunk(
            scope=OPERATOR,
            chunk_id=first.pk,
            text="The turbine sings 青铜.",
            by=None,
            expected_revision=first.revision,
        )
        delete_chunks(scope=OPERATOR, chunk_ids=[second.pk], by=None)
        set_chunks_enabled(scope=OPERATOR, chunk_ids=[third.pk], enabled=False)
        added = add_chunk(scope=OPERATOR, file_id=file.pk, text="A bronze bell 青铜钟.", by=None)
        world.chinese[0].restricted_to.add(world.staff)
        publish(world.english[1], *ENGLISH[5:], "The turbine of the second store.")
        if is_settled:
            self.settle()
        for query in (*QUERIES, "turbine", "青铜"):
            found = self.ask(index, query, world.stores[:2], world.reader())
            gone = {second.pk, third.pk}
            assert not gone & {hit.chunk_id for hit in found}
            assert world.chinese[0].pk not in {hit.file_id for hit in found}
        best = self.ask(index, "青铜", [store])
        assert {hit.chunk_id for hit in best[:2]} == {first.pk, added.pk}
        self.ask(index, ENGLISH[1], world.stores[:2])

    def test_what_is_deleted_is_gone_at_once(self, index: SearchIndex, world: World) -> None:
        world.english[0].delete()
        found = self.ask(index, "the pump leaks water", world.stores[:2])
        assert world.english[0].pk not in {hit.file_id for hit in found}
        world.stores[1].delete()
        assert {hit.store_id for hit in self.ask(index, "pump", world.stores)} == {
            world.stores[0].pk,
            world.stores[2].pk,
        }
        self.settle()
        self.ask(index, "the pump leaks water", world.stores)

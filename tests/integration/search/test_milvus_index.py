"""Search by Milvus' proposals: the contract of both providers, refills, lags and failures."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection

from rag import models
from rag.core.errors import ConfigurationError, ProviderError
from rag.core.ports import IndexQuery, SearchIndex
from rag.core.types import SearchResult
from rag.models.outbox import WORDS
from rag.providers.milvus.index import MilvusIndex, search_candidates
from rag.providers.milvus.server import MilvusServer
from rag.providers.postgres.db.connections import database_id
from rag.providers.postgres.outbox.rows import enable_outbox, outbox_state
from rag.providers.postgres.search.index import PostgresIndex
from rag.services.index.outbox import drain_outbox, start_outbox
from rag.services.search.result_cache import _is_degraded
from tests.contract_search import SearchIndexContract
from tests.factories import FileFactory, GroupFactory, SpaceFactory, StoreFactory, publish
from tests.fakes.words_embedder import WordsEmbedder
from tests.integration.index_world import index_query
from tests.integration.milvus_world import milvus_file, server

__all__ = ["milvus_file", "server"]
pytestmark = [pytest.mark.slow, pytest.mark.django_db]


class TestPostgres(SearchIndexContract):
    @pytest.fixture
    def index(self) -> SearchIndex:
        return PostgresIndex()


class TestMilvus(SearchIndexContract):
    @pytest.fixture
    def index(self, server: MilvusServer) -> SearchIndex:
        return MilvusIndex(server)

    def settle(self) -> None:
        drain_outbox()
        assert outbox_state().n_waiting == 0
        # What was fed is proposed by Milvus alone from here on.
        models.OutboxRow.objects.all().delete()


def fed_store(*texts: str, **values: Any) -> models.Store:
    store = StoreFactory(**values)
    publish(FileFactory(store=store), *texts)
    fed()
    return store


def fed() -> None:
    """Bring Milvus up to date, and let nothing but it propose what is there by now."""
    drain_outbox()
    models.OutboxRow.objects.all().delete()


def found(server: MilvusServer, query: IndexQuery) -> tuple[list[int], dict[int, str]]:
    """Return the chunks that Milvus' index finds, the same as Postgres' own, and the routes."""
    hits, routes = MilvusIndex(server).search(query)
    wanted, _ = PostgresIndex().search(query)
    assert [(hit.chunk_id, hit.score) for hit in hits] == [
        (hit.chunk_id, hit.score) for hit in wanted
    ]
    return [hit.chunk_id or 0 for hit in hits], routes


def unnoted(statement: str, *values: Any) -> None:
    """Change rows behind Milvus' back."""
    enable_outbox(False)
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
    enable_outbox(True)


def pump(n: int) -> list[str]:
    return [f"pump number {i} stops" for i in range(n)]


def question(store: models.Store, text: str, **values: Any) -> IndexQuery:
    return index_query([store], text, WordsEmbedder(64).embed_query(text), **values)


def test_stale_proposals_are_filtered_and_more_are_asked_for(server: MilvusServer) -> None:
    store = fed_store(*pump(260))
    near = [
        hit.chunk_id
        for hit in PostgresIndex().search(question(store, "pump number stops", top_k=200))[0]
    ]
    # Milvus still holds what is off now: the first hundreds of its proposals are no good.
    unnoted("UPDATE rag_chunk SET enabled = false WHERE id = ANY(%s)", near)
    asked: list[int] = []

    def counted(*values: Any) -> list[int]:
        asked.append(values[-1])
        return search_candidates(*values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rag.providers.milvus.index.search_candidates", counted)
        chunks, routes = found(server, question(store, "pump number stops"))
    assert len(chunks) == 10 and not set(chunks) & set(near)
    assert asked == [100, 400, 100, 400]
    assert routes == {store.space_id: "milvus"}


def test_a_filter_that_leaves_too_few_of_all_is_told(
    server: MilvusServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fed_store(*pump(150))
    unnoted("UPDATE rag_chunk SET enabled = false WHERE store_id = %s", store.pk)
    monkeypatch.setattr("rag.providers.milvus.index.MOST", 100)
    assert found(server, question(store, "pump")) == ([], {store.space_id: "milvus cut"})


def test_a_restricted_chunk_is_not_given_out_while_milvus_calls_it_open(
    server: MilvusServer,
) -> None:
    readers, staff = GroupFactory(), GroupFactory()
    store = fed_store("the secret pump stops", readers=[readers])
    asked = question(store, "secret pump", group_ids=frozenset({readers.pk}))
    assert len(found(server, asked)[0]) == 1
    file = models.File.objects.get(store=store)
    enable_outbox(False)
    file.restricted_to.add(staff)
    enable_outbox(True)
    assert found(server, asked)[0] == []
    # And one that Milvus calls restricted comes back with the next feeding.
    models.OutboxRow.objects.all().delete()
    start_outbox(everything=True)
    fed()
    assert found(server, replace(asked, group_ids=frozenset({readers.pk, staff.pk})))[0]


def test_a_search_that_cannot_look_at_all_that_waits_says_so(
    server: MilvusServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fed_store(*pump(3))
    publish(FileFactory(store=store), *pump(3))
    monkeypatch.setattr("rag.providers.milvus.index.MAX_RECENT", 2)
    hits, routes = MilvusIndex(server).search(question(store, "pump"))
    assert routes == {store.space_id: "milvus behind"}
    assert len(hits) == 5
    words = index_query([store], "pump")
    assert MilvusIndex(server).search(words)[1] == {WORDS: "milvus behind"}
    result = SearchResult("pump", (), "hybrid", 3, "", routes, {})
    assert _is_degraded(result) and not _is_degraded(replace(result, routes={1: "milvus"}))
    fed()
    monkeypatch.undo()
    assert found(server, question(store, "pump"))[1] == {store.space_id: "milvus"}


def test_nothing_is_found_where_nothing_may_be(server: MilvusServer) -> None:
    store = fed_store(*pump(3))
    assert found(server, question(store, "pump", file_ids=[]))[0] == []
    assert MilvusIndex(server).search(replace(question(store, "pump"), targets=[])) == ([], {})
    assert found(server, index_query([store], ""))[0] == []
    assert found(server, index_query([store], "unknown"))[0] == []


def test_a_milvus_that_was_never_fed_is_an_error_and_one_that_lags_is_not(
    server: MilvusServer,
) -> None:
    store = StoreFactory(space=SpaceFactory(model="words:16", dim=16))
    asked = replace(
        index_query([store]), vectors={store.space_id: WordsEmbedder(16).embed_query("pump")}
    )
    assert MilvusIndex(server).search(asked) == ([], {store.space_id: "milvus"})
    enable_outbox(False)
    with pytest.raises(ConfigurationError, match=r"never fed\. Run: manage\.py rag_feed"):
        MilvusIndex(server).search(asked)


def test_a_milvus_that_is_down_is_an_error_within_seconds(server: MilvusServer) -> None:
    store = fed_store(*pump(3))
    down = MilvusServer("http://127.0.0.1:1", "root:geheimnis", timeout_s=1.0)
    with pytest.raises(ProviderError, match="connection to Milvus at 127.0.0.1:1 failed") as caught:
        MilvusIndex(down).search(question(store, "pump"))
    assert "geheimnis" not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def _any(rows: Any, rng: random.Random) -> Any:
    return rng.choice(list(rows.order_by("pk")))


def change(stores: list[models.Store], groups: list[Any], rng: random.Random) -> None:
    """Do one of the things that people and jobs do to a store."""
    files = models.File.objects.filter(store__in=stores)
    file, chunk = _any(files, rng), _any(models.Chunk.objects.live().filter(file__in=files), rng)
    act = rng.choice(["publish", "new", "switch", "restrict", "free", "retype", "delete", "drain"])
    texts = [f"{rng.choice(NOUNS)} {rng.choice(NOUNS)} {i}" for i in range(rng.randint(1, 6))]
    if act in ("publish", "new"):
        publish(FileFactory(store=file.store) if act == "new" else file, *texts)
    elif act == "switch":
        models.Chunk.objects.filter(pk=chunk.pk).update(enabled=not chunk.enabled)
    elif act == "restrict":
        file.restricted_to.add(rng.choice(groups))
    elif act == "free":
        file.restricted_to.clear()
    elif act == "retype":
        models.File.objects.filter(pk=file.pk).update(content_type=rng.choice(["manual", "note"]))
    elif act == "delete" and files.count() > 2:
        file.delete()
    else:
        fed()


NOUNS = ("pump", "valve", "motor", "水泵", "阀门", "E-21")


def test_whatever_happens_in_which_order_both_providers_find_the_same(
    server: MilvusServer,
) -> None:
    rng, readers = random.Random(20261128), GroupFactory()
    groups = [GroupFactory() for _ in range(2)]
    stores = [StoreFactory(readers=[readers]) for _ in range(2)]
    for store in stores:
        publish(FileFactory(store=store), *(f"{a} {b}" for a in NOUNS for b in NOUNS))
    for _ in range(40):
        change(stores, groups, rng)
        text = f"{rng.choice(NOUNS)} {rng.choice(NOUNS)}"
        own = frozenset({readers.pk, *rng.sample([group.pk for group in groups], 1)})
        types = rng.choice([(), ("manual",), ("document", "note")])
        asked = index_query(
            stores,
            text,
            WordsEmbedder(64).embed_query(text),
            group_ids=own,
            settings={"content_types": types},
            top_k=rng.choice([3, 10, 60]),
        )
        found(server, asked)
    fed()
    assert found(server, asked)[1] == {stores[0].space_id: "milvus"}


def test_a_database_has_a_mark_of_its_own(db: None) -> None:
    assert re.fullmatch("[0-9a-f]{8}", database_id())
    database_id.cache_clear()
    assert database_id() == database_id()

"""HNSW indexes: built when due, used when there, as good as the exact scan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from django.db import DatabaseError, connection, transaction

from rag import models
from rag.core.ports import IndexQuery
from rag.providers.postgres.search.index import PostgresIndex
from rag.providers.postgres.vectors.spaces import (
    build_hnsw,
    create_partition,
    drop_partition,
    index_name,
    valid_indexes,
)
from rag.services.index.vectors import build_pending_indexes, pending_indexes
from tests.integration.index_world import (
    index_query,
    make_file,
    make_space,
    make_store,
    publish,
    target_of,
)

pytestmark = pytest.mark.django_db
DIM = 32


@pytest.fixture(autouse=True)
def small_limits(settings: Any) -> None:
    settings.RAG = settings.RAG | {"HNSW_MIN_CHUNKS": 50}


def fill(store: models.Store, n: int, seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(n, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    file = make_file(store, f"f{seed}")
    publish(file, [f"text {seed} {i}" for i in range(n)], list(vectors))
    return vectors


def test_a_small_space_needs_no_index() -> None:
    store = make_store(make_space("fake:32", DIM))
    fill(store, 20)
    assert pending_indexes(space_id=store.space_id) == []


def test_a_space_gets_its_index_when_it_passes_the_limit_and_uses_it() -> None:
    store = make_store(make_space("fake:32", DIM))
    vectors = fill(store, 300)
    assert pending_indexes(space_id=store.space_id) == [None]
    assert build_pending_indexes(space_id=store.space_id, concurrently=False) == 1
    assert index_name(store.space_id) in valid_indexes()
    assert pending_indexes(space_id=store.space_id) == []
    n_right = 0
    for query in vectors[:20]:
        asked = index_query([store], vector=query, targets=[target_of(store, has_hnsw=True)])
        hits, routes = PostgresIndex().search(asked)
        assert routes == {store.space_id: "hnsw"}
        exact = np.argsort(-(vectors @ query))[:10]
        n_right += len({int(hit.text.split()[-1]) for hit in hits} & set(exact.tolist()))
    assert n_right / 200 >= 0.98


def test_the_expression_index_serves_the_order(settings: Any) -> None:
    store = make_store(make_space("fake:32", DIM))
    vectors = fill(store, 300)
    build_hnsw(store.space_id, DIM, concurrently=False)
    literal = "[" + ",".join(map(str, vectors[0].tolist())) + "]"
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off")
        cursor.execute(
            f"EXPLAIN SELECT chunk_id FROM rag_chunk_vec_s{store.space_id} WHERE store_id = %s"
            f" ORDER BY embedding::halfvec({DIM}) <=> %s::halfvec({DIM}) LIMIT 5",
            [store.pk, literal],
        )
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert index_name(store.space_id) in plan


def test_a_large_store_with_a_small_share_gets_an_index_of_its_own() -> None:
    space = make_space("fake:32", DIM)
    big, small = make_store(space, "big"), make_store(space, "small")
    vectors = fill(small, 60, seed=2)
    models.Store.objects.filter(pk=big.pk).update(n_chunks=1_000_000)
    assert pending_indexes(space_id=space.pk) == [None, small.pk]
    assert build_pending_indexes(space_id=space.pk, concurrently=False) == 2
    target = target_of(small, share=0.0001, has_hnsw=True, has_partial=True)
    query: IndexQuery = index_query([small], vector=vectors[7], targets=[target])
    hits, routes = PostgresIndex().search(query)
    assert routes == {space.pk: "partial"}
    assert hits[0].text == "text 2 7"


def test_a_filter_that_the_index_cannot_meet_falls_back_to_the_exact_scan() -> None:
    store = make_store(make_space("fake:32", DIM))
    vectors = fill(store, 300)
    rare = make_file(store, "rare", content_type="outline")
    publish(rare, ["rare one", "rare two"], [vectors[0], vectors[1]])
    build_hnsw(store.space_id, DIM, concurrently=False)
    asked = index_query(
        [store],
        vector=vectors[9],
        targets=[target_of(store, has_hnsw=True)],
        settings={"content_types": ("outline",)},
    )
    hits, _ = PostgresIndex().search(asked)
    assert {hit.text for hit in hits} == {"rare one", "rare two"}


def test_making_a_partition_twice_changes_nothing_and_dropping_takes_all() -> None:
    space = make_space("fake:32", DIM)
    create_partition(space.pk, DIM)
    fill(make_store(space), 3)
    drop_partition(space.pk)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM rag_chunk_vec")
        assert cursor.fetchone() == (0,)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("concurrently", [True, False])
def test_a_build_that_fails_leaves_its_memory_to_nobody(concurrently: bool) -> None:
    def memory() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SHOW maintenance_work_mem")
            return str(cursor.fetchone()[0])

    store = make_store(make_space("fake:32", DIM))
    fill(store, 3)
    before = memory()
    with pytest.raises(DatabaseError, match="dimensions"):
        build_hnsw(store.space_id, DIM + 1, concurrently=concurrently)
    assert memory() == before != "2GB"
    with pytest.raises(DatabaseError, match="dimensions"), transaction.atomic():
        build_hnsw(store.space_id, DIM + 1, concurrently=False)
    assert memory() == before

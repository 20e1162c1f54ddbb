"""Loading chunks in bulk: the same rows as the ordinary way in, all or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.db.utils import DataError, IntegrityError

from rag import models
from rag.core.documents import Chunk
from rag.core.errors import ConflictError, NotFoundError
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.lexical.bm25 import bm25_weights, term_key
from rag.providers.postgres.search.index import PostgresIndex
from rag.providers.postgres.vectors.spaces import build_hnsw, valid_indexes
from rag.providers.postgres.write.bulk_load import LoadRow, LoadTarget, load_chunks
from rag.services.ingest.staged_revision import chunk_digest, indexed_text
from rag.stages.text.terms import index_terms
from tests.integration.index_world import (
    index_query,
    make_file,
    make_space,
    make_store,
    publish,
    target_of,
    unit,
)

pytestmark = pytest.mark.django_db
TEXTS = [
    "The pump HX-17 moves water.",
    "水泵在地下室里。",
    "A filter cleans the water, the pump not.",
]
VECTORS = [unit(1, 0.1), unit(0, 1), unit(0.3, 0, 1)]


@pytest.fixture
def store() -> models.Store:
    return make_store(make_space())


def target(store: models.Store) -> LoadTarget:
    return LoadTarget(store.pk, store.space_id, store.avg_len_frozen)


def rows(file: models.File, texts: list[str], vectors: list[Any]) -> Iterator[LoadRow]:
    position = 0
    for ordinal, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
        chunk = Chunk(ordinal, position, position + len(text), position, text, len(text))
        position += len(text)
        yield LoadRow(file.pk, chunk, chunk_digest(chunk), indexed_text(chunk), vector)


def load(
    store: models.Store, name: str = "f", texts: list[str] = TEXTS, **values: Any
) -> models.File:
    file = make_file(store, name, revision=1, **values)
    vectors = [VECTORS[i % 3] for i in range(len(texts))]
    assert load_chunks(target=target(store), rows=rows(file, texts, vectors)) == len(texts)
    return file


def ask(sql: str, *params: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


def frequencies(store: models.Store) -> dict[int, int]:
    return dict(ask("SELECT key, df FROM rag_term_df WHERE store_id = %s AND df <> 0", store.pk))


def weights_of(row: str) -> dict[int, float]:
    pairs = (pair.split(":") for pair in row[1 : row.index("}")].split(",") if pair)
    return {int(key): float(weight) for key, weight in pairs}


def found(store: models.Store, words: str = "", vector: Any = None) -> list[str]:
    hits, _ = PostgresIndex().search(index_query([store], words, vector))
    return [hit.text for hit in hits]


def test_rows_are_those_of_the_ordinary_way_in(store: models.Store) -> None:
    loaded = load(store)
    other = make_store(store.space, "other")
    published = make_file(other)
    publish(published, TEXTS, VECTORS)
    for table, columns in (
        (
            "rag_chunk",
            "ordinal, char_start, char_end, own_start, token_count, page_first,"
            " page_last, heading_path::text, block_kinds::text, content_type, text, context,"
            " enabled, is_live, revision, file_revision, edited_by_id",
        ),
        ("rag_chunk_vec", "enabled, is_han, content_type, restricted, embedding::text"),
        ("rag_chunk_lex", "enabled, is_han, content_type, restricted, len"),
    ):
        key = "id" if table == "rag_chunk" else "chunk_id"
        sql = f"SELECT {columns} FROM {table} WHERE file_id = %s ORDER BY {key}"
        assert ask(sql, loaded.pk) == ask(sql, published.pk)
        assert len(ask(sql, loaded.pk)) == 3


def test_weights_and_frequencies_are_those_of_the_texts(store: models.Store) -> None:
    load(store)
    sql = "SELECT w::text FROM rag_chunk_lex ORDER BY chunk_id"
    for (row,), text in zip(ask(sql), TEXTS, strict=True):
        expected = bm25_weights(store.pk, index_terms(text), store.avg_len_frozen)
        assert weights_of(row) == pytest.approx(expected, rel=1e-5)
    assert frequencies(store)[term_key(store.pk, "water")] == 2
    assert frequencies(store)[term_key(store.pk, "水泵")] == 1


def test_the_chunks_are_found_by_words_and_by_vector(store: models.Store) -> None:
    load(store)
    assert found(store, "filter") == [TEXTS[2]]
    assert found(store, "hx-17") == [TEXTS[0]]
    assert found(store, "水泵") == [TEXTS[1]]
    assert found(store, vector=VECTORS[1])[0] == TEXTS[1]


def test_everything_of_a_chunk_arrives(store: models.Store) -> None:
    file = make_file(store, "full", revision=4)
    chunk = Chunk(
        5,
        10,
        15,
        12,
        "水 'x'",
        3,
        page_first=2,
        page_last=3,
        heading_path=("一", 'a "b"'),
        block_kinds=("table",),
        context="Name | 数",
    )
    row = LoadRow(file.pk, chunk, chunk_digest(chunk), indexed_text(chunk), VECTORS[0])
    load_chunks(target=target(store), rows=[row])
    kept = models.Chunk.objects.get(file=file)
    for name in (
        "ordinal",
        "char_start",
        "char_end",
        "own_start",
        "text",
        "token_count",
        "page_first",
        "page_last",
        "context",
    ):
        assert getattr(kept, name) == getattr(chunk, name)
    assert kept.heading_path == ["一", 'a "b"']
    assert kept.block_kinds == ["table"]
    assert (kept.sha256, kept.file_revision, kept.revision) == (chunk_digest(chunk), 4, 1)
    assert found(store, "name") == [chunk.text]


def test_type_and_restriction_of_the_file_are_copied(store: models.Store) -> None:
    group, file = Group.objects.create(name="g"), make_file(store, content_type="outline")
    file.restricted_to.add(group)
    load_chunks(target=target(store), rows=rows(file, TEXTS, VECTORS))
    for table in ("rag_chunk_vec", "rag_chunk_lex"):
        assert ask(f"SELECT DISTINCT content_type, restricted FROM {table}") == [
            ("outline", [group.pk])
        ]
    assert found(store, "filter") == []


def test_counts_of_the_store_are_those_of_a_recount(store: models.Store) -> None:
    load(store)
    store.refresh_from_db()
    before = frequencies(store), store.n_chunks, store.sum_len
    stats.recount_statistics(store.pk)
    store.refresh_from_db()
    assert (frequencies(store), store.n_chunks, store.sum_len) == before
    assert store.n_chunks == 3


def test_a_second_load_adds_to_the_first(store: models.Store) -> None:
    load(store)
    load(store, "second", ["A pump again.", "Another thing."])
    assert frequencies(store)[term_key(store.pk, "pump")] == 3
    assert frequencies(store)[term_key(store.pk, "again")] == 1
    assert len(found(store, "pump")) == 3
    store.refresh_from_db()
    assert store.n_chunks == 5


def test_stores_do_not_mix(store: models.Store) -> None:
    load(store)
    other = make_store(store.space, "other")
    load(other, "g", ["A pump elsewhere."])
    assert found(other, "pump") == ["A pump elsewhere."]
    assert frequencies(store)[term_key(store.pk, "pump")] == 2


def test_deleting_what_was_loaded_leaves_no_count(store: models.Store) -> None:
    file = load(store)
    models.File.objects.filter(pk=file.pk).delete()
    stats.roll_up([store.pk])
    store.refresh_from_db()
    assert frequencies(store) == {}
    assert (store.n_chunks, store.sum_len) == (0, 0)
    assert ask("SELECT count(*) FROM rag_chunk_vec") == [(0,)]


def test_the_words_index_is_the_same_as_before(store: models.Store) -> None:
    sql = "SELECT indexdef FROM pg_indexes WHERE indexname = 'rag_chunk_lex_terms'"
    before = ask(sql)
    load(store)
    assert ask(sql) == before
    assert "rag_terms" in before[0][0]


def test_the_vector_index_of_an_empty_space_comes_back_when_built(store: models.Store) -> None:
    build_hnsw(store.space_id, 8, concurrently=False)
    name = f"rag_chunk_vec_s{store.space_id}_hnsw"
    load(store)
    assert name not in valid_indexes()
    build_hnsw(store.space_id, 8, concurrently=False)
    assert name in valid_indexes()
    query = index_query([store], vector=VECTORS[2], targets=[target_of(store, has_hnsw=True)])
    assert PostgresIndex().search(query)[0][0].text == TEXTS[2]


def test_a_vector_index_in_use_is_kept(store: models.Store) -> None:
    load(store)
    build_hnsw(store.space_id, 8, concurrently=False)
    load(store, "more", ["one more"])
    assert f"rag_chunk_vec_s{store.space_id}_hnsw" in valid_indexes()


def test_many_chunks_go_through_several_processes(store: models.Store) -> None:
    texts = [f"水泵 number {i} of room {i % 50}" for i in range(3500)]
    files = [make_file(store, f"f{i}", revision=1) for i in range(4)]
    told: list[int] = []

    def all_rows() -> Iterator[LoadRow]:
        for i, file in enumerate(files):
            some = texts[i * 875 : (i + 1) * 875]
            yield from rows(file, some, [unit(i + 1, j % 7, 1) for j in range(875)])

    n = load_chunks(target=target(store), rows=all_rows(), processes=2, on_progress=told.append)
    assert (n, sum(told), len(told)) == (3500, 3500, 4)
    before = frequencies(store)
    stats.recount_statistics(store.pk)
    assert frequencies(store) == before
    assert before[term_key(store.pk, "水泵")] == 3500
    assert found(store, "2718")[0] == texts[2718]
    order = ask("SELECT text FROM rag_chunk ORDER BY id")
    assert [text for (text,) in order] == texts
    wanted = unit(3, 5, 1).astype(np.float16).astype(np.float32)
    sql = (
        "SELECT v.embedding::text FROM rag_chunk_vec v JOIN rag_chunk c ON c.id = v.chunk_id"
        " WHERE c.text = %s"
    )
    kept = [float(x) for x in ask(sql, texts[2 * 875 + 5])[0][0].strip("[]").split(",")]
    assert kept == pytest.approx(wanted.tolist(), abs=1e-6)


def test_rows_of_files_may_alternate(store: models.Store) -> None:
    one, two = make_file(store, "one"), make_file(store, "two")
    pairs = zip(rows(one, TEXTS, VECTORS), rows(two, TEXTS, VECTORS), strict=True)
    load_chunks(target=target(store), rows=[row for pair in pairs for row in pair])
    assert ask("SELECT file_id, count(*) FROM rag_chunk_vec GROUP BY 1 ORDER BY 1") == [
        (one.pk, 3),
        (two.pk, 3),
    ]


def test_a_chunk_without_any_term_is_kept(store: models.Store) -> None:
    load(store, texts=["!!!", "pump"])
    assert found(store, "pump") == ["pump"]
    assert found(store, vector=VECTORS[0])[0] == "!!!"


def test_nothing_to_load_changes_nothing(store: models.Store) -> None:
    assert load_chunks(target=target(store), rows=[]) == 0
    assert frequencies(store) == {}
    load(store)
    assert found(store, "filter") == [TEXTS[2]]


def test_a_failure_leaves_nothing_behind(store: models.Store) -> None:
    file = make_file(store)

    def failing() -> Iterator[LoadRow]:
        yield from rows(file, TEXTS, VECTORS)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="disk"), transaction.atomic():
        load_chunks(target=target(store), rows=failing())
    assert ask("SELECT count(*) FROM rag_chunk") == [(0,)]
    assert ask("SELECT count(*) FROM rag_chunk_lex") == [(0,)]
    load(store, "again")
    assert found(store, "filter") == [TEXTS[2]]


def test_a_vector_of_another_dimension_is_refused(store: models.Store) -> None:
    file = make_file(store)
    with pytest.raises((DataError, IntegrityError, psycopg.Error)), transaction.atomic():
        load_chunks(target=target(store), rows=rows(file, ["x"], [unit(1, dim=9)]))
    assert ask("SELECT count(*) FROM rag_chunk") == [(0,)]


def test_an_unknown_file_is_an_error(store: models.Store) -> None:
    file = load(store)
    row = next(rows(file, ["x"], [unit(1)]))
    with pytest.raises(NotFoundError, match="File 987654"):
        load_chunks(target=target(store), rows=[replace(row, file_id=987654)])


def test_a_file_of_another_store_is_an_error(store: models.Store) -> None:
    other = make_file(make_store(store.space, "other"))
    with pytest.raises(NotFoundError, match="not in store"):
        load_chunks(target=target(store), rows=rows(other, ["x"], [unit(1)]))


def test_a_file_that_has_chunks_is_an_error(store: models.Store) -> None:
    file = load(store)
    with pytest.raises(ConflictError, match="has chunks"):
        load_chunks(target=target(store), rows=rows(file, ["x"], [unit(1)]))


def test_statistics_are_packed_when_a_store_has_grown(
    store: models.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats, "_PACK_FROM", 4)
    publish(make_file(store, "few"), TEXTS, VECTORS)
    assert ask("SELECT count(*) FROM rag_term_pack") == [(0,)]
    before = frequencies(store)
    publish(make_file(store, "more"), TEXTS, VECTORS)
    assert ask("SELECT count(*) FROM rag_term_stat") == [(0,)]
    assert frequencies(store) == {key: 2 * df for key, df in before.items()}
    publish(make_file(store, "last"), [TEXTS[0]], [VECTORS[0]])
    assert frequencies(store)[term_key(store.pk, "pump")] == 5
    assert len(found(store, "pump")) == 5


def test_packed_counts_weigh_in_a_search_as_unpacked_ones_do(store: models.Store) -> None:
    publish(make_file(store), TEXTS * 3, VECTORS * 3)
    query = index_query([store], "pump water filter")
    before = [(hit.chunk_id, hit.score) for hit in PostgresIndex().search(query)[0]]
    stats.pack_statistics(store.pk)
    assert ask("SELECT count(*) FROM rag_term_stat") == [(0,)]
    after = [(hit.chunk_id, hit.score) for hit in PostgresIndex().search(query)[0]]
    assert after == before
    stats.pack_statistics(store.pk)
    assert [(h.chunk_id, h.score) for h in PostgresIndex().search(query)[0]] == before

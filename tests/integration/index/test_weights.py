"""Lexical weights follow the true mean length: the same rows as if written with it."""

from __future__ import annotations

import random
import threading
from collections import Counter
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection, connections
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from procrastinate.contrib.django.models import ProcrastinateJob
from psycopg import sql

from rag import models
from rag.providers.postgres.db.literals import sparse_literal
from rag.providers.postgres.lexical import reweigh as weights
from rag.providers.postgres.lexical.bm25 import bm25_weights
from rag.providers.postgres.search.index import PostgresIndex
from rag.providers.postgres.write.bulk_load import LoadRow, LoadTarget, load_chunks
from rag.services.index import lexical_weights as service
from rag.services.ingest.staged_revision import chunk_digest, indexed_text
from rag.services.operations import recovery as recover
from rag.stages.text.terms import index_terms
from tests.integration.index.test_load import rows as load_rows
from tests.integration.index_desk import ask, put, run_job, watch, work
from tests.integration.index_world import (
    index_query,
    make_file,
    make_space,
    make_store,
    publish,
    unit,
)

WORDS = [f"word{n}" for n in range(400)]


def text_of(n_words: int, seed: int) -> str:
    dice = random.Random(seed)
    # Common words often, rare ones seldom, as in any text.
    return " ".join(WORDS[int(400 * dice.random() ** 3)] for _ in range(n_words))


@pytest.fixture
def store() -> models.Store:
    return make_store(make_space())


def fill(store: models.Store, lengths: list[int], name: str = "f", seed: int = 0) -> list[str]:
    texts = [text_of(n, seed + number) for number, n in enumerate(lengths)]
    publish(make_file(store, name), texts, [unit(1, 0.01 * n) for n in range(len(texts))])
    return texts


def stored(store: models.Store) -> list[dict[int, float]]:
    found = ask("SELECT w::text FROM rag_chunk_lex WHERE store_id = %s ORDER BY chunk_id", store.pk)
    pairs = [row[1 : row.index("}")].split(",") for (row,) in found]
    return [{int(p.split(":")[0]): float(p.split(":")[1]) for p in row if p} for row in pairs]


def assert_weighed(store: models.Store, texts: list[str], mean: float) -> None:
    found = stored(store)
    assert len(found) == len(texts)
    for row, text in zip(found, texts, strict=True):
        assert row == pytest.approx(bm25_weights(store.pk, index_terms(text), mean), rel=2e-3)


def mean_of(texts: list[str]) -> float:
    return sum(sum(index_terms(text).values()) for text in texts) / len(texts)


def frozen(store: models.Store) -> float:
    store.refresh_from_db()
    return store.avg_len_frozen


def restart(store: models.Store, mean: float) -> None:
    """Let the store's chunks be weighed by another mean."""
    files = list(store.files.values_list("pk", flat=True))
    assert weights.reweigh_files(files, mean) == []
    weights.freeze_mean(store.pk, mean)


@given(
    counts=st.dictionaries(
        st.sampled_from(WORDS), st.integers(1, 40) | st.just(20_000), min_size=1, max_size=60
    ),
    before=st.floats(1, 2000),
    after=st.floats(1, 2000),
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.django_db
def test_a_row_tells_the_frequencies_it_was_made_from(
    counts: dict[str, int], before: float, after: float
) -> None:
    old = bm25_weights(1, Counter(counts), before)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    with psycopg.Cursor(connection.connection) as cursor:
        query = sql.SQL("SELECT {}::sparsevec").format(sql.Literal(sparse_literal(old)))
        raw = cursor.execute(query, binary=True).fetchone()[0]
    made = weights._reweighed(raw, sum(counts.values()), after)
    expected = bm25_weights(1, Counter(counts), after)
    if not made:
        assert old == pytest.approx(expected, rel=5e-3)
        return
    pairs = (pair.split(":") for pair in made[1 : made.index("}")].split(","))
    found = {int(key): float(weight) for key, weight in pairs}
    assert found == pytest.approx(expected, rel=5e-3)


@pytest.mark.django_db
def test_within_the_band_nothing_is_done(store: models.Store) -> None:
    fill(store, [90, 100, 118])
    assert weights.next_mean(store.pk) is None
    assert weights.drifted_stores() == []
    before = ask("SELECT chunk_id, xmin::text FROM rag_chunk_lex ORDER BY 1")
    service.reweigh_if_drifted(store_id=store.pk)
    assert frozen(store) == 100
    assert ask("SELECT chunk_id, xmin::text FROM rag_chunk_lex ORDER BY 1") == before


@pytest.mark.django_db
@pytest.mark.parametrize("length", [7, 60, 125, 400])
def test_a_small_store_goes_to_its_true_mean_at_once(store: models.Store, length: int) -> None:
    texts = fill(store, [length, length + 2, length - 2])
    assert weights.drifted_stores() == [store.pk]
    service.reweigh_if_drifted(store_id=store.pk)
    assert frozen(store) == pytest.approx(mean_of(texts))
    assert_weighed(store, texts, mean_of(texts))
    assert not ProcrastinateJob.objects.exists()
    assert weights.drifted_stores() == []


@pytest.mark.django_db
def test_scores_are_those_of_bm25_with_the_true_mean(store: models.Store) -> None:
    fill(store, [20, 30, 40, 25, 35])
    other = make_store(
        store.space,
        "other",
        avg_len_frozen=mean_of(
            [text_of(n, number) for number, n in enumerate([20, 30, 40, 25, 35])]
        ),
    )
    fill(other, [20, 30, 40, 25, 35])
    service.reweigh_if_drifted(store_id=store.pk)
    query = "word1 word2 word7 word30"
    found = [PostgresIndex().search(index_query([each], query))[0] for each in (store, other)]
    scores = [[hit.lexical.score for hit in hits] for hits in found]
    assert scores[0] == pytest.approx(scores[1], rel=2e-3)
    assert [hit.text for hit in found[0]] == [hit.text for hit in found[1]]


@pytest.mark.django_db
def test_other_stores_and_empty_ones_are_left_alone(store: models.Store) -> None:
    other = make_store(store.space, "other")
    empty = make_store(store.space, "empty")
    fill(other, [100, 101], "g", seed=50)
    before = stored(other)
    fill(store, [400, 401])
    service.reweigh_if_drifted(store_id=store.pk)
    service.reweigh_if_drifted(store_id=empty.pk)
    service.reweigh_if_drifted(store_id=999_999)
    assert stored(other) == before
    assert (frozen(other), frozen(empty)) == (100, 100)


@pytest.mark.django_db
def test_a_large_store_is_queued_once_and_goes_in_steps(
    store: models.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_AT_ONCE", 2)
    texts = fill(store, [250, 251, 249])
    steps: list[float] = []
    freeze = weights.freeze_mean

    def seen(store_id: int, mean: float) -> None:
        # At the end of a step every row has its weights.
        assert_weighed(store, texts, mean)
        steps.append(mean)
        freeze(store_id, mean)

    monkeypatch.setattr(weights, "freeze_mean", seen)
    for _ in range(3):
        recover.recover_jobs()
    (job,) = ProcrastinateJob.objects.values_list("task_name", "args", "lock")
    assert job == ("rag.reweigh_store", {"store_id": store.pk}, f"weights:{store.pk}")
    assert frozen(store) == 100
    service.reweigh_store(store_id=store.pk)
    mean = mean_of(texts)
    assert steps == pytest.approx([125, 156.25, 195.3125, 244.140625])
    assert all(b / a <= weights.STEP for a, b in zip([100.0, *steps], steps, strict=False))
    assert mean / weights.BAND <= frozen(store) <= mean * weights.BAND
    assert_weighed(store, texts, frozen(store))
    service.reweigh_store(store_id=store.pk)
    assert len(steps) == 4


@pytest.mark.django_db
def test_after_a_crash_the_work_goes_on_and_rows_that_are_done_are_not_written(
    store: models.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_AT_ONCE", 2)
    monkeypatch.setattr(weights, "BATCH", 1)
    texts = fill(store, [123] * 3) + fill(store, [124] * 3, "g", seed=9)
    rewrite, n_left = weights._rewrite, [4]

    def dying(*values: Any) -> set[int]:
        if not n_left[0]:
            raise KeyboardInterrupt
        n_left[0] -= 1
        return rewrite(*values)

    monkeypatch.setattr(weights, "_rewrite", dying)
    with pytest.raises(KeyboardInterrupt):
        service.reweigh_store(store_id=store.pk)
    assert frozen(store) == 100
    assert weights.drifted_stores() == [store.pk]
    half = ask("SELECT chunk_id, ctid::text FROM rag_chunk_lex ORDER BY 1")
    n_left[0] = 1000
    service.reweigh_store(store_id=store.pk)
    assert_weighed(store, texts, mean_of(texts))
    whole = ask("SELECT chunk_id, ctid::text FROM rag_chunk_lex ORDER BY 1")
    assert [now == then for now, then in zip(whole, half, strict=True)] == [True] * 4 + [False] * 2


@pytest.mark.django_db
def test_what_came_in_during_a_step_is_weighed_by_the_new_mean_too(
    store: models.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_AT_ONCE", 2)
    texts = fill(store, [124] * 4)
    old = timezone.now() - timedelta(days=2)
    models.File.objects.update(updated_at=old)
    late: list[str] = []
    reweigh, n_asked = weights.reweigh_files, []

    def slow(file_ids: list[int], mean: float) -> list[int]:
        n_asked.append(len(file_ids))
        held = reweigh(file_ids, mean)
        if not late:
            late.extend(fill(store, [125] * 2, "late", seed=70))
        return held

    monkeypatch.setattr(weights, "reweigh_files", slow)
    service.reweigh_store(store_id=store.pk)
    assert n_asked == [1, 1]
    assert_weighed(store, [*texts, *late], frozen(store))


@pytest.mark.django_db(transaction=True)
def test_rows_that_somebody_holds_are_waited_for_one_by_one() -> None:
    store = make_store(make_space())
    texts = fill(store, [300] * 3)
    chunk_ids = [row[0] for row in ask("SELECT chunk_id FROM rag_chunk_lex ORDER BY 1")]
    holds, lets_go = threading.Event(), threading.Event()

    def hold() -> None:
        other = psycopg.connect(**connection.get_connection_params())
        other.execute(
            "UPDATE rag_chunk_lex SET enabled = false WHERE chunk_id = %s", [chunk_ids[1]]
        )
        holds.set()
        lets_go.wait(20)
        other.commit()
        other.close()

    def settle() -> None:
        service.reweigh_if_drifted(store_id=store.pk)
        connections.close_all()

    holder, settler = threading.Thread(target=hold), threading.Thread(target=settle)
    holder.start()
    assert holds.wait(20)
    settler.start()
    settler.join(2)
    # All the others and the mean are done, and visible, while one row is not at hand.
    assert settler.is_alive()
    assert frozen(store) == pytest.approx(300)
    expected = bm25_weights(store.pk, index_terms(texts[0]), 300.0)
    assert stored(store)[0] == pytest.approx(expected, rel=2e-3)
    lets_go.set()
    for thread in (holder, settler):
        thread.join(20)
    assert_weighed(store, texts, 300.0)
    assert ask("SELECT enabled FROM rag_chunk_lex ORDER BY chunk_id") == [
        (True,),
        (False,),
        (True,),
    ]


@pytest.mark.django_db
def test_a_half_rewritten_store_ranks_like_a_whole_one(store: models.Store) -> None:
    """What a search sees in the middle of a step differs by less than the band already allows."""
    texts = fill(store, [30 + 7 * n % 60 for n in range(200)])
    restart(store, mean_of(texts))
    queries = [text_of(4, seed) for seed in range(900, 930)]

    def top(query: str) -> list[int]:
        hits = PostgresIndex().search(index_query([store], query, settings={"top_k": 10}))[0]
        return [hit.chunk_id for hit in hits]

    true = [top(query) for query in queries]
    chunks = [row[0] for row in ask("SELECT chunk_id FROM rag_chunk_lex ORDER BY chunk_id")]
    weights.reweigh_locked(chunks[::2], mean_of(texts) / weights.STEP)
    mixed = [top(query) for query in queries]
    shared = [len(set(a) & set(b)) / len(a) for a, b in zip(true, mixed, strict=True)]
    assert sum(shared) / len(shared) >= 0.85
    assert sum(a[0] in b[:3] for a, b in zip(true, mixed, strict=True)) >= 0.9 * len(queries)


@pytest.mark.django_db(transaction=True)
def test_a_file_s_job_leaves_its_store_weighed_by_the_true_mean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = make_store(make_space())
    watch(store, monkeypatch)
    for number in range(3):
        work(put(store, text_of(40, number), f"{number}.txt"))
    texts = [text for (text,) in ask("SELECT text FROM rag_chunk ORDER BY id")]
    assert frozen(store) == pytest.approx(mean_of(texts), rel=weights.BAND - 1)
    assert frozen(store) != 100
    assert_weighed(store, texts, frozen(store))


@pytest.mark.django_db
def test_a_draft_of_an_old_mean_goes_on_and_is_weighed_anew(
    store: models.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = watch(store, monkeypatch)
    file = put(store, "\n\n".join(text_of(150, n) for n in range(60)))

    def other_mean(n: int) -> None:
        if n == 2:
            weights.freeze_mean(store.pk, 300)
            raise KeyboardInterrupt

    embedder.before = other_mean
    with pytest.raises(KeyboardInterrupt):
        run_job(file)
    n_kept = ask("SELECT count(*) FROM rag_chunk_draft")[0][0]
    assert n_kept > 0
    embedder.forget()
    assert run_job(file) is not None
    # The rows of the first try were not embedded again.
    texts = [text for (text,) in ask("SELECT text FROM rag_chunk ORDER BY ordinal")]
    assert len(embedder.texts) == len(texts) - n_kept
    assert_weighed(store, texts, frozen(store))


@pytest.mark.django_db
def test_a_load_into_an_empty_store_measures_its_mean(store: models.Store) -> None:
    texts = [text_of(30 + n % 5, n) for n in range(700)]
    file = make_file(store, revision=1)
    vectors = [unit(1, 0.001 * n) for n in range(len(texts))]
    target = LoadTarget(store.pk, store.space_id)
    load_chunks(target=target, rows=load_rows(file, texts, vectors))
    assert frozen(store) == pytest.approx(mean_of(texts), rel=0.02)
    assert_weighed(store, texts, frozen(store))
    # A second load takes what the first has frozen.
    more = [text_of(90, 7000 + n) for n in range(5)]
    before = frozen(store)
    load_chunks(target=target, rows=load_rows(make_file(store, "g", revision=1), more, vectors[:5]))
    assert frozen(store) == before
    assert_weighed(store, texts + more, before)


@pytest.mark.django_db
def test_a_load_of_nothing_or_of_blanks_keeps_the_mean(store: models.Store) -> None:
    target = LoadTarget(store.pk, store.space_id)
    assert load_chunks(target=target, rows=[]) == 0
    assert frozen(store) == 100
    file = make_file(store, revision=1)
    (row,) = load_rows(file, ["。。。"], [unit(1)])
    blank = LoadRow(
        file.pk, row.chunk, chunk_digest(row.chunk), indexed_text(row.chunk), row.vector
    )
    assert load_chunks(target=target, rows=[blank]) == 1
    assert frozen(store) == 100
    # Chunks without a word have no mean to go to.
    service.reweigh_if_drifted(store_id=store.pk)
    assert frozen(store) == 100

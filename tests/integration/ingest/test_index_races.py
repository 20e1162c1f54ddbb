"""Indexing while others delete, reindex, switch chunks, count, or take the same file."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.db import OperationalError, connection, connections
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models, tasks
from rag.core.access import Scope
from rag.providers.postgres.db.locks import file_lock
from rag.providers.postgres.lexical import statistics as stats
from rag.services.files.delete import delete_files
from rag.services.files.edit import set_chunks_enabled
from rag.services.files.requeue import requeue_files
from rag.services.ingest import indexing as index_service
from rag.services.ingest.indexing import index_file
from rag.services.stores.lifecycle import delete_store
from tests.factories import StoreFactory
from tests.integration.index_desk import (
    WatchedEmbedder,
    ask,
    assert_whole,
    live,
    put,
    run_job,
    watch,
    work,
)

pytestmark = pytest.mark.django_db(transaction=True)
OPERATOR = Scope.operator()
TABLES = ("rag_chunk", "rag_chunk_vec", "rag_chunk_lex", "rag_chunk_draft")
STATISTICS = ("rag_term_stat", "rag_term_pack", "rag_term_delta")


def prose(n: int, seed: int = 0) -> str:
    """Return ``n`` paragraphs of one chunk each."""
    dice = random.Random(seed)
    return "\n\n".join(" ".join(f"w{dice.randrange(5000)}" for _ in range(45)) for _ in range(n))


@pytest.fixture
def store() -> Any:
    return StoreFactory(max_tokens_per_chunk=50, max_overlap_tokens=0)


@pytest.fixture(autouse=True)
def embedder(store: Any, monkeypatch: pytest.MonkeyPatch) -> WatchedEmbedder:
    return watch(store, monkeypatch)


def aside(pool: ThreadPoolExecutor, do: Callable[..., Any], **values: Any) -> Future[Any]:
    """Do something on another connection."""

    def doing() -> Any:
        try:
            return do(**values)
        finally:
            connections.close_all()

    return pool.submit(doing)


def at_batch(embedder: WatchedEmbedder, number: int, do: Callable[[], Any]) -> None:
    """Do something, on the thread of the model, before a batch is embedded."""

    def before(n: int) -> None:
        if n == number:
            try:
                do()
            finally:
                connections.close_all()

    embedder.before = before


def count(*tables: str) -> dict[str, int]:
    return {table: ask(f"SELECT count(*) FROM {table}")[0][0] for table in tables}


def nothing_left() -> None:
    assert set(count(*TABLES, *STATISTICS, "rag_file").values()) == {0}


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_file_deleted_while_its_job_runs_is_nothing_to_do(
    store: Any, embedder: WatchedEmbedder, caplog: pytest.LogCaptureFixture, batch: int
) -> None:
    file = put(store, prose(90))
    path = file.content.name
    at_batch(embedder, batch, lambda: delete_files(scope=OPERATOR, file_ids=[file.pk]))
    other = put(store, "The pump stops.", "b.txt")
    # In the order of their coming: the small one would pass the large one.
    ask("UPDATE procrastinate_jobs SET priority = 0 RETURNING id")
    with caplog.at_level(logging.ERROR):
        (after,) = work(other)
        ended = ask(
            "SELECT status, count(*) FROM procrastinate_jobs WHERE queue_name = 'index' GROUP BY 1"
        )
        deadline = time.monotonic() + 10
        while ended != [("succeeded", 2)] and time.monotonic() < deadline:
            work(other)
            ended = ask(
                "SELECT status, count(*) FROM procrastinate_jobs WHERE queue_name = 'index' GROUP BY 1"
            )
    assert ended == [("succeeded", 2)]
    assert [record.getMessage() for record in caplog.records if record.name == "rag.tasks"] == []
    assert after.status == "completed"
    assert list(models.File.objects.all()) == [other]
    assert not default_storage.exists(path)
    assert count(*TABLES) == dict(zip(TABLES, (1, 1, 1, 0), strict=True))
    assert_whole(store)


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_store_deleted_while_a_job_runs_leaves_nothing(
    store: Any, embedder: WatchedEmbedder, batch: int
) -> None:
    file = put(store, prose(90))
    at_batch(embedder, batch, lambda: delete_store(store=models.Store.objects.get(pk=store.pk)))
    assert run_job(file) is None
    nothing_left()


def test_a_store_deleted_right_before_the_swap_leaves_nothing(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = index_service.activate_revision

    def publishing(**values: Any) -> bool:
        delete_store(store=models.Store.objects.get(pk=store.pk))
        return publish(**values)

    monkeypatch.setattr(index_service, "activate_revision", publishing)
    assert run_job(put(store, prose(40))) is None
    nothing_left()


def test_a_store_deleted_right_after_the_swap_leaves_nothing(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = index_service.activate_revision

    def publishing(**values: Any) -> bool:
        done = publish(**values)
        delete_store(store=models.Store.objects.get(pk=store.pk))
        return done

    monkeypatch.setattr(index_service, "activate_revision", publishing)
    assert run_job(put(store, prose(40))) is None
    nothing_left()


def test_deleting_a_store_never_meets_its_jobs_in_a_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(1)
    with ThreadPoolExecutor(4) as pool:
        for n in range(1, 13):
            store = StoreFactory(max_tokens_per_chunk=50, max_overlap_tokens=0)
            watch(store, monkeypatch)
            first, second = put(store, prose(20, n), "a"), put(store, prose(20, n + 100), "b")
            run_job(first)
            doing = [
                aside(pool, index_file, file_id=first.pk, fresh_vectors=True),
                aside(pool, index_file, file_id=second.pk),
                aside(pool, stats.roll_up, store_ids=[store.pk]),
            ]
            time.sleep(dice.uniform(0, 0.15))
            delete_store(store=store)
            for job in doing:
                job.result(20)
            nothing_left()


def test_deleting_files_never_meets_their_jobs_in_a_circle(store: Any) -> None:
    dice = random.Random(2)
    with ThreadPoolExecutor(4) as pool:
        for n in range(10):
            files = [put(store, prose(15, n * 3 + i), f"{i}") for i in range(3)]
            doing = [aside(pool, index_file, file_id=file.pk) for file in files]
            time.sleep(dice.uniform(0, 0.15))
            delete_files(scope=OPERATOR, file_ids=[file.pk for file in reversed(files)])
            for job in doing:
                job.result(20)
            assert set(count(*TABLES, "rag_file").values()) == {0}
    assert_whole(store)


def test_switching_chunks_never_meets_a_swap_in_a_circle(store: Any) -> None:
    file = put(store, prose(40))
    run_job(file)
    ids = [chunk.pk for chunk in live(file)]
    stop = threading.Event()

    def switching(seed: int) -> int:
        dice, n = random.Random(seed), 0
        while not stop.is_set():
            some = dice.sample(ids, 20)
            n += set_chunks_enabled(scope=OPERATOR, chunk_ids=some, enabled=dice.random() < 0.5)
        return n

    with ThreadPoolExecutor(2) as pool:
        doing = [aside(pool, switching, seed=seed) for seed in (3, 4)]
        try:
            for _ in range(8):
                run_job(file, fresh_vectors=True)
        finally:
            stop.set()
        assert all(job.result(20) > 0 for job in doing)
    assert [chunk.pk for chunk in live(file)] == ids
    for table in ("rag_chunk_vec", "rag_chunk_lex"):
        wrong = f"SELECT c.id FROM rag_chunk c JOIN {table} t ON t.chunk_id = c.id WHERE c.enabled <> t.enabled"
        assert ask(wrong) == []
    assert_whole(store)


def test_statistics_rolled_up_by_several_at_once_are_a_recount(store: Any) -> None:
    other = StoreFactory(space=store.space, max_tokens_per_chunk=50, max_overlap_tokens=0)
    files = [put(where, prose(20, n), f"{n}") for n in range(3) for where in (store, other)]
    stop = threading.Event()

    def rolling(order: list[int]) -> int:
        n = 0
        while not stop.is_set():
            stats.roll_up(order)
            stats.pack_statistics(order[0])
            n += 1
        return n

    def indexing(file: models.File) -> None:
        for _ in range(3):
            index_file(file_id=file.pk, fresh_vectors=True)

    with ThreadPoolExecutor(5) as pool:
        ids = [store.pk, other.pk]
        doing = [aside(pool, rolling, order=order) for order in (ids, ids[::-1])]
        try:
            for job in [aside(pool, indexing, file=file) for file in files]:
                job.result(30)
            stats.recount_statistics(store.pk)
        finally:
            stop.set()
        assert all(job.result(20) > 0 for job in doing)
    assert_whole(store, other)


def test_two_workers_do_not_take_the_same_file(store: Any, embedder: WatchedEmbedder) -> None:
    file = put(store, prose(40))
    refused: list[str] = []

    def second() -> None:
        with pytest.raises(OperationalError) as caught:
            index_file(file_id=file.pk)
        refused.append(str(caught.value))

    at_batch(embedder, 2, second)
    done = run_job(file)
    assert refused == [f"file {file.pk} is in the hands of another worker"]
    assert done is not None
    assert (done.status, done.revision) == ("completed", 1)
    assert_whole(store)
    index_file(file_id=file.pk)
    done.refresh_from_db()
    assert done.revision == 2


def test_the_lock_of_a_dead_worker_is_gone(store: Any) -> None:
    def dying() -> None:
        with file_lock(7):
            ask("SELECT pg_terminate_backend(pg_backend_pid())")

    with ThreadPoolExecutor(1) as pool, pytest.raises(OperationalError):
        aside(pool, dying).result(20)
    held = (
        "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database "
        "WHERE locktype = 'advisory' AND datname = current_database()"
    )
    with file_lock(7):
        assert ask(held) == [(1,)]
    assert ask(held) == [(0,)]


def test_a_reindex_asked_for_while_indexing_follows_it(
    store: Any, embedder: WatchedEmbedder
) -> None:
    file = put(store, prose(60))
    at_batch(embedder, 1, lambda: requeue_files(store=store, fresh_vectors=True))
    (after,) = work(file)
    assert (after.status, after.revision) == ("completed", 2)
    assert len(embedder.texts) == 2 * after.n_chunks
    assert_whole(store)


def test_fresh_vectors_are_not_lost_to_a_job_that_waits(
    store: Any, embedder: WatchedEmbedder
) -> None:
    file = put(store, prose(3))
    requeue_files(store=store)
    requeue_files(store=store, fresh_vectors=True)
    requeue_files(store=store, fresh_vectors=True)
    flags = [
        job.args.get("fresh_vectors", False) for job in ProcrastinateJob.objects.order_by("pk")
    ]
    assert flags == [False, True]
    (after,) = work(file)
    assert (after.revision, len(embedder.texts)) == (2, 6)


def test_a_job_that_lost_the_database_is_tried_again_beside_its_like(
    store: Any, embedder: WatchedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.RETRY, "linear_wait", 0)
    file = put(store, prose(90))

    def lose() -> None:
        requeue_files(store=store)
        ask(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            " AND datname = current_database() AND pid IN"
            " (SELECT pid FROM pg_locks WHERE locktype = 'advisory')"
        )

    at_batch(embedder, 2, lose)
    (after,) = work(file)
    assert (after.status, after.error, after.revision) == ("completed", None, 2)
    # The first batch of the try that failed was kept.
    assert len(embedder.texts) < 2 * after.n_chunks
    rows = ask(
        "SELECT status, attempts FROM procrastinate_jobs WHERE queue_name = 'index' ORDER BY id"
    )
    assert rows == [("succeeded", 2), ("succeeded", 1)]
    assert_whole(store)
    connection.close()

"""Queue order: small files pass large ones, which never starve, and those that wait are told."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connections
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models, tasks
from rag.admin.files.status import progress_sentence
from rag.providers import procrastinate_queue
from rag.services.files import queue_places, requeue_files
from rag.services.files.requeue import MAX_EXPECTED_S, expected_seconds
from tests.factories import FileFactory, StoreFactory
from tests.integration.index_desk import ask, assert_whole, forget_jobs, put, watch, work

pytestmark = pytest.mark.django_db(transaction=True)
N_SENTENCES = 600


def book(number: int) -> str:
    return "".join(
        f"The pump number {n} of plant {number} is serviced yearly by team {n * 3}. "
        for n in range(N_SENTENCES)
    )


def take_all() -> list[int]:
    """Let a worker take the jobs as the library hands them out; return their files."""
    ((worker,),) = ask("INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id")
    taken = []
    while rows := ask(
        "SELECT args->>'file_id' FROM procrastinate_fetch_job_v2(ARRAY['index'], %s)"
        " WHERE id IS NOT NULL",
        worker,
    ):
        taken.append(int(rows[0][0]))
    return taken


def files_of(*sizes: int) -> list[models.File]:
    store = StoreFactory()
    return [FileFactory(store=store, name=f"{n}.txt", size=size) for n, size in enumerate(sizes)]


def test_small_files_go_first_and_a_book_does_not_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    book, other, *small = files_of(5_000_000, 9_000_000, *[2000] * 20)
    requeue_files(store=book.store)
    now = procrastinate_queue.time.time()
    (late,) = files_of(2000)
    monkeypatch.setattr(
        procrastinate_queue.time,
        "time",
        lambda: now + expected_seconds(name="a.txt", size=book.size) + 5,
    )
    requeue_files(store=late.store)
    places = queue_places()
    assert [places[one.pk].n_before for one in small] == list(range(20))
    assert places[late.pk].n_before == 21
    assert places[other.pk].seconds > places[book.pk].seconds > places[small[-1].pk].seconds > 0
    assert take_all() == [*(one.pk for one in small), book.pk, late.pk, other.pk]
    assert expected_seconds(name="a.pdf", size=10**12) == MAX_EXPECTED_S
    told = progress_sentence({"stage": "waiting"}, places[other.pk])
    assert told.startswith("waiting for its turn, 22 files before it, about 2 min"), told


def test_books_that_run_already_let_small_files_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "SLICE_S", 0.0)
    monkeypatch.setattr(tasks, "PATIENCE_S", 0.0)
    store: Any = StoreFactory(max_tokens_per_chunk=50)
    embedder, small = watch(store, monkeypatch), []
    books = [put(store, book(n), name=f"book{n}.txt") for n in range(2)]

    def bring(n_batches: int) -> None:
        """Let small files come when both books are being embedded."""
        if n_batches == 2:
            small.extend(put(store, f"Valve {n} leaks.", name=f"{n}.txt") for n in range(5))
        connections.close_all()

    embedder.before = bring
    done = work(*books)
    ended = [models.File.objects.get(pk=one.pk) for one in small]
    assert [one.status for one in (*done, *ended)] == ["completed"] * 7
    assert max(one.updated_at for one in ended) < min(one.updated_at for one in done)
    # Each was begun again where it stopped.
    assert embedder.texts and len(embedder.texts) == len(set(embedder.texts))
    assert_whole(store)
    jobs = ProcrastinateJob.objects.filter(task_name="rag.index_file")
    assert not jobs.filter(status__in=("todo", "doing")).exists()
    assert jobs.count() > len(books) + len(small)
    forget_jobs()

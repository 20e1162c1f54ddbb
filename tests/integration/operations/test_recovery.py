"""What dead workers leave behind comes back: jobs, files without a job, changes not counted."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection, connections
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models, tasks
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.procrastinate_queue import defer, is_waiting, release_queue_slot, retry_stalled
from rag.services.files.requeue import requeue_files
from rag.services.operations.recovery import purge_finished_jobs, recover_jobs, remove_orphans
from tests.factories import FileFactory, QueryLogFactory, StoreFactory, publish
from tests.integration.index_desk import ask, assert_whole

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def file() -> Any:
    file = FileFactory()
    requeue_files(store=file.store)
    return file


def worker(silent_s: float) -> int:
    """Return a worker that was last heard of so long ago."""
    rows = ask(
        "INSERT INTO procrastinate_workers (last_heartbeat)"
        " VALUES (now() - %s * interval '1 second') RETURNING id",
        silent_s,
    )
    return int(rows[0][0])


def take(worker_id: int | None) -> int:
    """Let a worker take the first waiting job."""
    rows = ask(
        "UPDATE procrastinate_jobs SET status = 'doing', worker_id = %s WHERE id ="
        " (SELECT min(id) FROM procrastinate_jobs WHERE status = 'todo') RETURNING id",
        worker_id,
    )
    return int(rows[0][0])


def states() -> list[str]:
    return list(ProcrastinateJob.objects.order_by("pk").values_list("status", flat=True))


def test_the_job_of_a_silent_worker_comes_back(file: Any) -> None:
    take(worker(31))
    assert recover_jobs() == 1
    job = ProcrastinateJob.objects.get()
    assert (job.status, job.attempts) == ("todo", 1)
    assert recover_jobs() == 0


def test_the_job_of_a_worker_that_is_gone_comes_back(file: Any) -> None:
    take(None)
    assert recover_jobs() == 1
    assert states() == ["todo"]


def test_the_job_of_a_living_worker_is_its_own(file: Any) -> None:
    take(worker(20))
    assert recover_jobs() == 0
    assert states() == ["doing"]


def test_the_limit_is_the_setting_s(file: Any, settings: Any) -> None:
    settings.PROCRASTINATE_WORKER_DEFAULTS = {
        **settings.PROCRASTINATE_WORKER_DEFAULTS,
        "stalled_worker_timeout": 2.0,
    }
    take(worker(3))
    assert recover_jobs() == 1


def test_a_job_comes_back_though_its_like_waits(file: Any) -> None:
    """The dead one would hold the lock of the file, and the one that waits would wait for ever."""
    take(worker(60))
    requeue_files(store=file.store)
    assert states() == ["doing", "todo"]
    assert recover_jobs() == 1
    assert states() == ["todo", "todo"]


def test_all_come_back_at_once_and_once_each() -> None:
    files = [FileFactory() for _ in range(10)]
    dead = worker(60)
    for file in files:
        requeue_files(store=file.store)
        take(dead)

    def recovering(_: int) -> int:
        try:
            return retry_stalled(30)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(recovering, range(4))) == 10
    assert set(ProcrastinateJob.objects.values_list("status", "attempts")) == {("todo", 1)}


@pytest.mark.parametrize("end", ["failed", "aborted", "cancelled"])
@pytest.mark.parametrize("is_fresh", [False, True])
def test_a_file_whose_job_ended_without_it_is_queued_again(end: str, is_fresh: bool) -> None:
    file = FileFactory()
    requeue_files(store=file.store, fresh_vectors=is_fresh)
    take(worker(0))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET status = %s", [end])
    assert recover_jobs() == 1
    again = ProcrastinateJob.objects.latest("pk")
    assert again.args == {"file_id": file.pk, "fresh_vectors": is_fresh}
    assert recover_jobs() == 0


def test_a_file_without_any_job_is_queued() -> None:
    file = FileFactory(status="processing")
    FileFactory(status="completed")
    FileFactory(status="error")
    FileFactory(status="idle")
    assert recover_jobs() == 1
    assert ProcrastinateJob.objects.get().lock == f"file:{file.pk}"


def test_changes_that_nobody_counted_are_counted() -> None:
    file = FileFactory()
    publish(file, "one two", "three")
    # As when a deletion was killed between its commit and the count.
    models.Chunk.objects.filter(text="three").delete()
    models.File.objects.update(n_chunks=1)
    assert stats.stores_with_deltas() == [file.store_id]
    recover_jobs()
    assert stats.stores_with_deltas() == []
    assert_whole(file.store)


def test_a_running_job_leaves_its_place_to_its_like(file: Any) -> None:
    lock = f"file:{file.pk}"
    assert not defer("rag.index_file", lock=lock, file_id=file.pk)
    assert is_waiting(lock)
    release_queue_slot(take(worker(0)))
    assert not is_waiting(lock)
    assert defer("rag.index_file", lock=lock, file_id=file.pk)
    assert is_waiting(lock)
    assert not is_waiting("file:0")


def test_flags_make_another_job(file: Any) -> None:
    lock = f"file:{file.pk}"
    assert defer("rag.index_file", lock=lock, file_id=file.pk, fresh_vectors=True)
    assert not defer("rag.index_file", lock=lock, file_id=file.pk, fresh_vectors=True)
    assert not defer("rag.index_file", lock=lock, file_id=file.pk, fresh_vectors=False)


def test_finished_jobs_are_forgotten_when_they_are_old(file: Any) -> None:
    for queue, hours in (("index", 200), ("index", 100), ("upkeep", 100), ("upkeep", 0)):
        job = ask(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, status)"
            " VALUES (%s, 't', 'succeeded') RETURNING id",
            queue,
        )[0][0]
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM procrastinate_events WHERE job_id = %s", [job])
            cursor.execute(
                "INSERT INTO procrastinate_events (job_id, type, at)"
                " VALUES (%s, 'succeeded', now() - %s * interval '1 hour')",
                [job, hours],
            )
    purge_finished_jobs()
    left = ProcrastinateJob.objects.order_by("pk").values_list("queue_name", "status")
    assert list(left) == [("index", "todo"), ("index", "succeeded"), ("upkeep", "succeeded")]


def test_the_periodic_tasks_run() -> None:
    FileFactory(status="processing")
    tasks.recover_jobs_task(timestamp=0)
    assert states() == ["todo"]
    tasks.tidy_up_task(timestamp=0)
    assert states() == ["todo"]


def test_uploads_that_nobody_finished_go_after_a_day(settings: Any, tmp_path: Path) -> None:
    settings.FILE_UPLOAD_TEMP_DIR = tmp_path
    ages = {
        "tmpold.upload.pdf": 90_000,
        "tmpolder.upload": 200_000,
        "tmpyoung.upload.txt": 3000,
        "notes.txt": 200_000,
    }
    for name, age_s in ages.items():
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    assert remove_orphans() == 2
    assert {path.name for path in tmp_path.iterdir()} == {"tmpyoung.upload.txt", "notes.txt"}
    settings.FILE_UPLOAD_TEMP_DIR = tmp_path / "gone"
    assert remove_orphans() == 0


def test_copies_of_connections_that_are_gone_go_after_a_day(settings: Any, tmp_path: Path) -> None:
    settings.RAG = settings.RAG | {"CONNECTIONS_DIR": tmp_path}
    connection = models.Connection.objects.create(store=StoreFactory(), name="a", connector="git")
    for name in (f"{connection.pk}", "999999", "sync-killed", "sync-alive"):
        (tmp_path / name / "inside").mkdir(parents=True)
        age_s = 0 if name == "sync-alive" else 200_000
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    assert remove_orphans() == 2
    assert {path.name for path in tmp_path.iterdir()} == {f"{connection.pk}", "sync-alive"}


def test_bytes_that_go_while_they_are_looked_at_stop_no_upkeep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = f"stores/{FileFactory().store_id}"
    old, going = (default_storage.save(f"{place}/{name}", ContentFile(b"x")) for name in "ab")
    for name in (old, going):
        os.utime(default_storage.path(name), (time.time() - 200_000,) * 2)
    told = default_storage.get_modified_time

    def late(name: str) -> Any:
        if name == going:
            default_storage.delete(name)
        return told(name)

    monkeypatch.setattr(default_storage, "get_modified_time", late)
    assert remove_orphans() == 1
    assert not default_storage.exists(old)


def test_a_folder_that_cannot_be_tidied_up_leaves_the_rest_of_the_upkeep(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.RAG = {**settings.RAG, "QUERY_LOG_DAYS": 30}
    row = QueryLogFactory()
    models.QueryLog.objects.filter(pk=row.pk).update(created_at=timezone.now() - timedelta(days=31))

    def fail() -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tasks, "remove_orphans", fail)
    with pytest.raises(PermissionError):
        tasks.tidy_up_task(timestamp=0)
    assert not models.QueryLog.objects.exists()

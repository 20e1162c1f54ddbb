"""The work of a queue's worker in a thread: a worker does not survive that its table is emptied."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, connections

from rag import models
from rag.services.ingest.indexing import index_file


@contextmanager
def indexing() -> Iterator[None]:
    """Index every file that waits while the block runs."""
    stop = threading.Event()

    def work() -> None:
        waiting = models.File.objects.filter(status=models.File.Status.PROCESSING)
        try:
            while not stop.wait(0.05):
                for file_id in list(waiting.values_list("pk", flat=True)):
                    take_job(file_id)
                    index_file(file_id=file_id)
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def take_job(file_id: int) -> None:
    """Take a file's job out of the queue, as a worker would."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM procrastinate_jobs WHERE lock = %s", [f"file:{file_id}"])

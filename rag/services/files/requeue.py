"""Requeue and queue order of files: small ones first, each in its turn, told to those that wait.

A file's turn is when it was queued, later by what it is expected to take: a book lets pass what is
smaller and comes within that time, and nothing that comes after it, so that it never starves.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from django.conf import settings
from django.db import transaction

from rag import models
from rag.providers.procrastinate_queue import defer, waiting_before
from rag.services.usage import current_payer

# About what a worker takes, measured with the default model on two cores.
CHUNK_S, FILE_S = 0.03, 1.0
CHUNKS_A_MB = {"text": 1400, "other": 300}
# However large it is, a file lets others pass for so long at most.
MAX_EXPECTED_S = 3600.0
_TEXT = {".txt", ".md", ".csv", ".tsv", ".json", ".jsonl", ".log", ".html", ".htm", ".xml", ".py"}


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """How many files are before one that waits, and about how long they take."""

    n_before: int
    seconds: float


def queue_file(
    *,
    file_id: int,
    name: str,
    size: int,
    n_chunks: int = 0,
    delay_s: int = 0,
    flags: dict[str, bool] | None = None,
) -> bool:
    """Queue a file's index job in its turn; return False when the same one waits already."""
    return defer(
        "rag.index_file",
        lock=f"file:{file_id}",
        delay_s=delay_s,
        expected_s=expected_seconds(name=name, size=size, n_chunks=n_chunks),
        file_id=file_id,
        **(flags or {}),
        **current_payer(),
    )


def expected_seconds(*, name: str, size: int, n_chunks: int = 0) -> float:
    """Return about how long indexing takes: by the chunks that it had, else by its bytes."""
    kind = "text" if PurePath(name).suffix.lower() in _TEXT else "other"
    expected = n_chunks or size / 1e6 * CHUNKS_A_MB[kind]
    return min(MAX_EXPECTED_S, FILE_S + CHUNK_S * expected)


def queue_places() -> dict[int, QueuePlace]:
    """Return the place of each file that waits, before one worker with its usual slots."""
    slots = max(1, int(settings.PROCRASTINATE_WORKER_DEFAULTS["concurrency"]))
    places: dict[int, QueuePlace] = {}
    spent_s = 0.0
    for file_id, size, name, n_chunks in waiting_before():
        places.setdefault(file_id, QueuePlace(len(places), spent_s / slots))
        spent_s += expected_seconds(name=name, size=size, n_chunks=n_chunks)
    return places


def requeue_files(
    *,
    store: models.Store,
    file_ids: list[int] | None = None,
    fresh_vectors: bool = False,
    from_text: bool = False,
    per_second: float = 0.0,
) -> list[int]:
    """Queue every file of the store, or the named ones, and return their ids.

    Unchanged chunks keep their vectors unless ``fresh_vectors``. ``from_text`` cuts the kept text
    anew instead of reading the bytes. ``per_second`` spreads the jobs so that about as many chunks
    are begun. A file that waits already is not queued twice.
    """
    files = models.File.objects.filter(store=store)
    if file_ids is not None:
        files = files.filter(pk__in=file_ids)
    rows = list(files.order_by("pk").values_list("pk", "name", "size", "n_chunks"))
    flags = {"fresh_vectors": fresh_vectors, **({"from_text": True} if from_text else {})}
    n_before = 0
    for file_id, name, size, n_chunks in rows:
        delay_s = int(n_before / per_second) if per_second else 0
        # The row first: a job that ends now either sees this one waiting or comes before it.
        with transaction.atomic():
            models.File.objects.filter(pk=file_id).update(
                status=models.File.Status.PROCESSING, progress={"stage": "waiting"}
            )
            queue_file(
                file_id=file_id,
                name=name,
                size=size,
                n_chunks=n_chunks,
                delay_s=delay_s,
                flags=flags,
            )
        n_before += max(1, n_chunks)
    return [file_id for file_id, *_ in rows]

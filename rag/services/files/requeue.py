"""Requeue: jobs that parse and embed files again while the old revision serves."""

from __future__ import annotations

from django.db import transaction

from rag import models
from rag.providers.procrastinate_queue import defer
from rag.services.usage import current_payer


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
    sizes = dict(files.order_by("pk").values_list("pk", "n_chunks"))
    n_before = 0
    for file_id, n_chunks in sizes.items():
        delay_s = int(n_before / per_second) if per_second else 0
        _queue(file_id, fresh_vectors, from_text, delay_s)
        n_before += max(1, n_chunks)
    return list(sizes)


@transaction.atomic
def _queue(file_id: int, fresh_vectors: bool, from_text: bool, delay_s: int) -> None:
    # The row first: a job that ends now either sees this one waiting or comes before it.
    models.File.objects.filter(pk=file_id).update(
        status=models.File.Status.PROCESSING, progress={"stage": "waiting"}
    )
    flags = {"from_text": True} if from_text else {}
    defer(
        "rag.index_file",
        lock=f"file:{file_id}",
        delay_s=delay_s,
        file_id=file_id,
        fresh_vectors=fresh_vectors,
        **flags,
        **current_payer(),
    )

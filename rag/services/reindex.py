"""Parse and embed files anew, by jobs, while their old revision serves."""

from __future__ import annotations

from django.db import transaction

from rag import models
from rag.providers.procrastinate_queue import defer


def reindex(
    *, store: models.Store, file_ids: list[int] | None = None, fresh_vectors: bool = False
) -> list[int]:
    """Queue every file of the store, or the named ones, and return their ids.

    Unchanged chunks keep their vectors unless ``fresh_vectors``. A file that waits already is not
    queued twice.
    """
    files = models.File.objects.filter(store=store)
    if file_ids is not None:
        files = files.filter(pk__in=file_ids)
    ids = list(files.order_by("pk").values_list("pk", flat=True))
    for file_id in ids:
        _queue(file_id, fresh_vectors)
    return ids


@transaction.atomic
def _queue(file_id: int, fresh_vectors: bool) -> None:
    # The row first: a job that ends now either sees this one waiting or comes before it.
    models.File.objects.filter(pk=file_id).update(
        status=models.File.Status.PROCESSING, progress={"stage": "waiting"}
    )
    defer("rag.index_file", lock=f"file:{file_id}", file_id=file_id, fresh_vectors=fresh_vectors)

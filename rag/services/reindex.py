"""Parse and embed files anew, by jobs, while their old revision serves."""

from __future__ import annotations

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
        queued = defer(
            "rag.index_file", lock=f"file:{file_id}", file_id=file_id, fresh_vectors=fresh_vectors
        )
        if queued:
            models.File.objects.filter(pk=file_id).update(
                status=models.File.Status.PROCESSING, progress={"stage": "waiting"}
            )
    return ids

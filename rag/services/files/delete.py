"""Delete files with their chunks, vectors, terms, waiting jobs, cached answers and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from django.core.files.storage import default_storage
from django.db import transaction

from rag import models
from rag.core.access import Scope
from rag.core.errors import RAGError
from rag.providers.postgres.db.connections import release_db
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.write.purge import purge_chunk_traces, purge_file_traces
from rag.services.gemini import gemini_file_search

BATCH = 200


def delete_files(*, scope: Scope, file_ids: Sequence[int]) -> int:
    """Delete files with their chunks, vectors, terms, waiting jobs and bytes; return how many.

    Gone from every search and from all that is kept of answers at commit; each batch is one
    transaction. Documents at Gemini go first: where one cannot be deleted the file stays with the
    reason, the others go, and it is raised.
    """
    failure = _delete_remote(scope, file_ids)
    deleted: list[tuple[int, int]] = []
    for start in range(0, len(file_ids), BATCH):
        with transaction.atomic():
            files = models.File.objects.editable(scope).order_by("pk")
            files = files.filter(pk__in=file_ids[start : start + BATCH], remote_name="")
            files = files.select_for_update(of=("self",))
            rows = list(files.values_list("pk", "store", "content"))
            pks = [pk for pk, _, _ in rows]
            chunk_ids = purge_file_traces(pks)
            # Chunks go by one statement: Django would read a hundred thousand of them first.
            models.ChunkRevision.objects.filter(chunk__file_id__in=pks).delete()
            models.Chunk.objects.filter(file_id__in=pks)._raw_delete("default")
            models.File.objects.filter(pk__in=pks).delete()
            purge_chunk_traces(chunk_ids)
            transaction.on_commit(partial(_delete_bytes, [name for _, _, name in rows]))
        deleted += [(pk, store_id) for pk, store_id, _ in rows]
    stats.roll_up(sorted({store_id for _, store_id in deleted}))
    if failure is not None:
        raise failure
    return len(deleted)


def _delete_remote(scope: Scope, file_ids: Sequence[int]) -> RAGError | None:
    files = models.File.objects.editable(scope).filter(pk__in=file_ids).exclude(remote_name="")
    names = dict(files.values_list("pk", "remote_name"))
    failure: RAGError | None = None
    for pk, name in names.items():
        row = models.File.objects.filter(pk=pk, remote_name=name)
        release_db()
        try:
            gemini_file_search().delete_document(name)
        except RAGError as error:
            row.update(status=models.File.Status.ERROR, error=error.as_dict())
            failure = error
        else:
            row.update(remote_name="")
    return failure


def _delete_bytes(names: Sequence[str]) -> None:
    # What lay at Gemini alone, or never arrived, has none.
    for name in filter(None, names):
        default_storage.delete(name)

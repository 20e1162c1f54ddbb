"""What people do to files and chunks. In: a Scope and ids; what it may not edit is passed over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.models import Group
from django.core.files.storage import default_storage
from django.db import transaction
from procrastinate.contrib.django import app
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.core.access import Scope
from rag.core.errors import ForbiddenError
from rag.providers.postgres import stats
from rag.services.ingest import clean_name
from rag.services.reindex import reindex

BATCH = 200


def delete_files(*, scope: Scope, file_ids: Sequence[int]) -> int:
    """Delete files with their chunks, vectors, terms and bytes; return how many.

    Gone from every search at commit; each batch is one transaction.
    """
    n_deleted = 0
    touched: set[int] = set()
    for start in range(0, len(file_ids), BATCH):
        with transaction.atomic():
            batch = file_ids[start : start + BATCH]
            files = models.File.objects.editable(scope).filter(pk__in=batch)
            rows = list(files.select_for_update(of=("self",)).values_list("pk", "store", "content"))
            _delete_rows([pk for pk, _, _ in rows])
            names = [name for _, _, name in rows]
            transaction.on_commit(lambda names=names: _delete_bytes(names))  # type: ignore[misc]
        touched.update(store for _, store, _ in rows)
        n_deleted += len(rows)
    if touched:
        stats.roll_up(sorted(touched))
    return n_deleted


def set_chunks_enabled(*, scope: Scope, chunk_ids: Sequence[int], enabled: bool) -> int:
    """Let chunks be found or not; return how many changed. The indexes follow at commit."""
    chunks = models.Chunk.objects.editable(scope).filter(pk__in=chunk_ids)
    return chunks.exclude(enabled=enabled).update(enabled=enabled)


def update_file(
    *,
    scope: Scope,
    file: models.File,
    name: str,
    content_type: str,
    metadata: Mapping[str, Any],
    restricted_to: Sequence[Group] | None = None,
) -> None:
    """Change what people may say about a file; chunks and indexes follow at commit.

    ``restricted_to`` None keeps the groups. Raises ForbiddenError to who may not edit the store.
    """
    if not models.File.objects.editable(scope).filter(pk=file.pk).exists():
        raise ForbiddenError("You may read “{name}”, not change it.", name=file.name)
    with transaction.atomic():
        file.name = clean_name(name)
        file.content_type = content_type.strip() or "document"
        file.metadata = dict(metadata)
        file.save(update_fields=["name", "content_type", "metadata", "updated_at"])
        if restricted_to is not None:
            file.restricted_to.set(restricted_to)


def retry_files(*, scope: Scope, file_ids: Sequence[int]) -> int:
    """Queue files to be read anew; return how many. Their live revision serves meanwhile."""
    files = models.File.objects.editable(scope).filter(pk__in=file_ids)
    by_store: dict[int, list[int]] = {}
    for pk, store_id in files.values_list("pk", "store"):
        by_store.setdefault(store_id, []).append(pk)
    stores = models.Store.objects.filter(pk__in=by_store)
    return sum(len(reindex(store=store, file_ids=by_store[store.pk])) for store in stores)


def cancel_files(*, scope: Scope, file_ids: Sequence[int]) -> tuple[int, int]:
    """Take waiting files out of the queue; return how many, and how many run already.

    A file with a live revision is completed again, others are idle; a running job goes on.
    """
    states = models.File.Status
    files = models.File.objects.editable(scope).filter(pk__in=file_ids, status=states.PROCESSING)
    n_cancelled = n_running = 0
    for pk, revision in files.values_list("pk", "revision"):
        jobs = ProcrastinateJob.objects.filter(lock=f"file:{pk}", status__in=("todo", "doing"))
        left = [
            job_id for job_id, status in jobs.values_list("pk", "status")
            if status == "doing" or not app.job_manager.cancel_job_by_id(job_id)
        ]  # fmt: skip
        if left:
            n_running += 1
            continue
        before = states.COMPLETED if revision else states.IDLE
        models.File.objects.filter(pk=pk).update(status=before, progress={})
        n_cancelled += 1
    return n_cancelled, n_running


def _delete_rows(file_ids: Sequence[int]) -> None:
    # Chunks go by one statement: Django would read a hundred thousand of them first.
    models.ChunkRevision.objects.filter(chunk__file_id__in=file_ids).delete()
    models.Chunk.objects.filter(file_id__in=file_ids)._raw_delete("default")
    models.File.objects.filter(pk__in=file_ids).delete()


def _delete_bytes(names: Sequence[str]) -> None:
    for name in names:
        default_storage.delete(name)
